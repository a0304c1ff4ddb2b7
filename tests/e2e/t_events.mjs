// SPDX-License-Identifier: Apache-2.0
//
// What happens, by server-sent events: live, from an id on, over nodes, and for
// clients that are slow or gone.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'

import { onPostgres, run, sql, startServer } from './lib/server.mjs'
import { openStream } from './lib/stream.mjs'
import { check, equal, has, note, test, until } from './lib/test.mjs'

const config = '[command ok]\nargv = /bin/true\n[command fail]\nargv = /bin/false\nmax_retries = 0\n'

test('what happens is streamed as it happens', async (t) => {
    const server = await startServer(t, { config })
    const stream = await openStream(t, server)
    const good = await server.enqueue('ok', { queue: 'q' })
    await stream.until((e) => e.type === 'job.run.completed' && e.data.jobId === good)
    const mine = stream.events.filter((e) => e.data.jobId === good)
    equal(mine.map((e) => e.type), ['job.enqueued', 'job.run.started', 'job.run.completed'])
    for (const e of mine) {
        equal([e.id, e.data.id, e.data.type, e.data.queue, e.data.project], [null, null, e.type, 'q', 'default'])
        check(Date.parse(e.data.at) > 0)
    }
    const bad = await server.enqueue('fail')
    const failed = await stream.until((e) => e.type === 'job.run.failed')
    equal([failed.data.jobId, failed.data.data.kind], [bad, 'fail'])
    equal(failed.data.id, sql(server.store, `SELECT id FROM events WHERE job_id = ${bad} AND type = 'job.run.failed'`))
    check(BigInt(failed.id) <= BigInt(failed.data.id))
})

test('with event_level all each of them is stored and streamed once', async (t) => {
    const server = await (await startServer(t, { config, settings: { event_level: 'all' } })).ready()
    const stream = await openStream(t, server)
    const good = await server.enqueue('ok')
    await stream.until((e) => e.type === 'job.run.completed')
    equal(stream.types(), ['job.enqueued', 'job.run.started', 'job.run.completed'])
    check(stream.events.every((e) => e.id !== null && e.data.jobId === good))
})

test('filters let through what was asked for', async (t) => {
    const server = await (await startServer(t)).ready()
    const wanted = await server.enqueue('a', { delayMs: 3600000, queue: 'one' })
    const other = await server.enqueue('a', { delayMs: 3600000, queue: 'two' })
    const streams = await Promise.all(
        ['?type=job.cancelled', '?type=job.*', '?type=queue.*,job.changed', '?queue=one', `?jobId=${wanted}`,
            '?project=default', '?project=nobodys', '?type=job'].map((query) => openStream(t, server, query)))
    await server.patch(`/jobs/${wanted}`, { priority: 9 })
    await server.post(`/jobs/${other}/cancel`)
    await server.post(`/jobs/${wanted}/cancel`)
    equal((await run(['pause', '--db', server.store, 'one'])).code, 0)
    const [changed, cancelledOther, cancelled] = [['job.changed', wanted], ['job.cancelled', other], ['job.cancelled', wanted]]
    const paused = ['queue.paused', null]
    const expected = [
        [cancelledOther, cancelled], [changed, cancelledOther, cancelled], [changed, paused],
        [changed, cancelled, paused], [changed, cancelled], [changed, cancelledOther, cancelled], [], [],
    ]
    const seen = () => streams.map((stream) => stream.events.map((e) => [e.type, e.data.jobId]))
    await until('all of it is there', () => seen().flat().length >= expected.flat().length)
    equal(seen(), expected)
})

test('a client goes on where it was', async (t) => {
    const server = await startServer(t)
    const ids = (await server.post('/jobs/batch', { jobs: Array.from({ length: 1300 }, () => ({ kind: 'a', queue: 'q' })) })).body.ids
    const first = await openStream(t, server, '?type=job.cancelled')
    await server.post(`/jobs/${ids[0]}/cancel`)
    await first.until((e) => e.data.jobId === ids[0])
    first.close()
    await server.post('/jobs/cancel', { queue: 'q' })
    for (const stream of [
        await openStream(t, server, '?type=job.cancelled', { 'last-event-id': first.lastId }),
        await openStream(t, server, `?type=job.cancelled&after=${first.lastId}`),
        await openStream(t, server, '?type=job.cancelled&after=999999', { 'last-event-id': first.lastId }),
        await openStream(t, server, '?type=job.cancelled&after=0'),
    ]) {
        await until('all have come', () => stream.events.length >= 1299)
        const live = await server.enqueue('b')
        await server.post(`/jobs/${live}/cancel`)
        await stream.until((e) => e.data.jobId === live, 'it has joined the others')
        const of = stream.events.filter((e) => e.data.queue === 'q').map((e) => e.data.jobId)
        const missing = ids.slice(of.length === 1300 ? 0 : 1).filter((id) => !of.includes(id))
        equal([missing, new Set(of).size], [[], of.length], 'each exactly once')
        const order = stream.events.map((e) => BigInt(e.data.id))
        check(order.every((id, i) => i === 0 || id > order[i - 1]), 'in their order')
        check(!stream.types().includes('reset'))
        stream.close()
    }
})

test('clients that join in the middle of things get each exactly once', async (t) => {
    const server = await (await startServer(t)).ready()
    const ids = (await server.post('/jobs/batch', { jobs: Array.from({ length: 1500 }, () => ({ kind: 'a' })) })).body.ids
    await server.post(`/jobs/${ids[0]}/cancel`)
    const first = sql(server.store, 'SELECT max(id) FROM events')
    const streams = []
    let next = 1
    const cancelOn = async () => {
        while (next < ids.length) await server.post(`/jobs/${ids[next++]}/cancel`)
    }
    const joinOn = async () => {
        while (next < ids.length && streams.length < 100)
            streams.push(await openStream(t, server, `?type=job.cancelled&after=${first}`))
    }
    await Promise.all([cancelOn(), cancelOn(), cancelOn(), cancelOn(), joinOn()])
    check(streams.length > 3)
    for (const stream of streams) {
        await until('all have come', () => stream.events.length >= ids.length - 1)
        equal(new Set(stream.events.map((e) => e.data.jobId)).size, ids.length - 1)
        equal(stream.events.length, ids.length - 1)
    }
})

test('what cannot be given any more is told by a reset', async (t) => {
    const server = await (await startServer(t)).ready()
    for (let i = 0; i < 3; i++) await server.post(`/jobs/${await server.enqueue('a')}/cancel`)
    const last = sql(server.store, 'SELECT max(id) FROM events')
    const pruned = sql(server.store, 'SELECT min(id) FROM events')
    sql(server.store, `DELETE FROM events WHERE id = ${pruned}`)
    sql(server.store, 'UPDATE events SET at = at - 3600000000')
    for (const after of [pruned, '99999999']) {
        const stream = await openStream(t, server, '', { 'last-event-id': after })
        const reset = await stream.until((e) => e.type === 'reset')
        equal([reset.id, reset.data.reason], [last, 'pruned'])
        const id = await server.enqueue('b')
        await stream.until((e) => e.data.jobId === id, 'it goes on')
        equal(stream.types(), ['reset', 'job.enqueued'])
    }
})

test('what another process has written is streamed too', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('a')
    const stream = await openStream(t, server, '?type=job.cancelled')
    const { code, stderr } = await run(['cancel', '--db', server.store, id])
    equal([code, stderr], [0, ''])
    equal((await stream.until((e) => e.data.jobId === id)).type, 'job.cancelled')
})

if (onPostgres)
    test('an event that becomes visible late is not lost', async (t) => {
        const server = await startServer(t)
        const stream = await openStream(t, server, '?type=test.*,job.cancelled')
        const slow = spawn('psql', ['-qAt', server.store], { stdio: ['pipe', 'pipe', 'inherit'] })
        t.defer(() => slow.kill('SIGKILL'))
        slow.stdin.write("SET search_path = holdfast; BEGIN; INSERT INTO events (at, type) VALUES (1, 'test.late') RETURNING id;\n")
        const late = String(await new Promise((done) => slow.stdout.once('data', done))).trim()
        const id = await server.enqueue('a')
        await server.post(`/jobs/${id}/cancel`)
        const early = await stream.until((e) => e.data.jobId === id)
        check(BigInt(early.data.id) > BigInt(late))
        check(BigInt(early.id ?? 0) < BigInt(late), 'going on from there would not miss the late one')
        slow.stdin.end('COMMIT;\n')
        const found = await stream.until((e) => e.type === 'test.late')
        equal(found.data.id, late)
        equal(stream.events.filter((e) => e.type === 'test.late').length, 1)
    })

const memory = (server) => Number(readFileSync(`/proc/${server.child.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) * 1024

test('events as large as may be hold up no stream', async (t) => {
    const server = await startServer(t)
    const stream = await openStream(t, server)
    const id = await server.enqueue('k')
    await server.post('/claim', { session: 's1' })
    await server.post(`/runs/${id}/complete`, { session: 's1' })
    const late = { session: 's1', result: 'x'.repeat((1 << 20) - 2) }
    const many = 12
    for (let i = 0; i < many; i++) await server.refused(409, 'POST', `/runs/${id}/complete`, late)
    await server.post(`/jobs/${await server.enqueue('k', { delayMs: 1000000 })}/cancel`)
    const seen = await openStream(t, server, '?after=0')
    for (const each of [stream, seen]) {
        await each.until((e) => e.type === 'job.cancelled')
        const results = each.events.filter((e) => e.type === 'run.late_result')
        check(each.types().includes('reset') || results.length === many, each.types())
        check(results.length > 0 && results.every((e) => e.data.data.result === late.result))
    }
    const fresh = await openStream(t, server)
    await server.post(`/jobs/${await server.enqueue('k', { delayMs: 1000000 })}/cancel`)
    await fresh.until((e) => e.type === 'job.cancelled')
    check(!fresh.types().includes('run.late_result'))
})

test('a slow client costs neither memory nor others their time', async (t) => {
    const server = await startServer(t)
    const quick = await openStream(t, server, '?type=job.enqueued')
    const slow = await Promise.all(Array.from({ length: 8 }, () => openStream(t, server)))
    for (const stream of slow) stream.pause()
    const before = memory(server)
    const jobs = Array.from({ length: 10000 }, () => ({ kind: 'a', queue: 'q'.repeat(100) }))
    for (let sent = 10000; sent <= 50000; sent += 10000) {
        await server.post('/jobs/batch', { jobs })
        await until('the quick one has all', () => quick.events.length === sent) // it is quick, not infinitely so
    }
    note(`${Math.round((memory(server) - before) / (1 << 20))} MiB more with 8 clients that do not read`)
    check(memory(server) - before < 128 << 20)
    for (const stream of slow) {
        stream.resume()
        const reset = await stream.until((e) => e.type === 'reset')
        equal(reset.data.reason, 'slow')
    }
    const last = await server.enqueue('b')
    for (const stream of slow) await stream.until((e) => e.data.jobId === last, 'it goes on')
    check(!quick.types().includes('reset'))
})

test('clients come and go, also in the middle', async (t) => {
    const server = await startServer(t)
    for (let i = 0; i < 30; i++) {
        const stream = await openStream(t, server, i % 2 ? '?after=0' : '')
        const id = await server.enqueue('a')
        if (i % 3 === 0) await stream.until((e) => e.data.jobId === id)
        stream.close()
        await server.post(`/jobs/${id}/cancel`)
    }
    const stream = await openStream(t, server, '?after=0')
    await until('all are there', () => stream.events.filter((e) => e.type === 'job.cancelled').length === 30)
})

test('streams end with the server and while nothing happens there are heartbeats', async (t) => {
    const server = await (await startServer(t)).ready()
    const stream = await openStream(t, server)
    await until('a heartbeat comes', () => stream.comments.includes('still here'))
    equal(stream.events, [])
    await server.stop()
    await until('it has ended', () => stream.ended)
    equal(stream.ended, 'complete')
})

test('what is wrong with a request for events', async (t) => {
    const server = await startServer(t)
    for (const [query, field] of [
        ['type=', 'type'], ['type=*', 'type'], ['type=job.*.x', 'type'], ['type=a,,b', 'type'], ['queue=a%20b', 'queue'],
        ['project=', 'project'], ['jobId=x', 'jobId'], ['jobId=0', 'jobId'], ['after=-1', 'after'], ['after=x', 'after'],
        [`type=${Array(17).fill('a').join(',')}`, 'type'],
    ])
        equal((await server.refused(400, 'GET', `/events?${query}`)).field, field, query)
    await server.refused(400, 'GET', '/events?colour=red')
    const problem = await server.refused(400, 'GET', '/events', undefined, { headers: { 'last-event-id': 'x' } })
    has(problem.detail, 'Last-Event-ID')
    const head = await server.fetch('HEAD', '/api/v1/events')
    equal([head.status, head.headers['content-type']], [200, 'text/event-stream'])
})
