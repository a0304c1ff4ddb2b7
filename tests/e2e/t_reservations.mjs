// SPDX-License-Identifier: Apache-2.0
//
// Reservations over HTTP: granted when the queue has drained, waited for in line, given
// up by whoever hangs up; and direct calls, which do all of it for one job.
import { startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const reserve = async (server, more = {}, options) =>
    (await server.post('/queues/q/reservations', { holder: 'me', ...more }, options)).body
const open = async (server) => (await server.get('/queues/q/reservations')).body.items
const states = async (server) => (await open(server)).map((v) => v.state)
const claim = async (server, session = 's1') => (await server.post('/claim', { session, queues: ['q'] })).body.runs
const complete = (server, id, session = 's1') => server.post(`/runs/${id}/complete`, { session, result: { ok: true } })

test('an idle queue is granted at once and dispatch stops meanwhile', async (t) => {
    const server = await startServer(t)
    const answer = await server.post('/queues/q/reservations', { holder: 'gpu', ttlMs: 60000 })
    const held = answer.body
    equal([answer.status, held.state, held.holder, held.queue, held.ttlMs], [201, 'active', 'gpu', 'q', 60000])
    equal(Date.parse(held.expiresAt) - Date.parse(held.grantedAt), 60000)
    equal([held.direct, held.jobId, held.endedAt, held.reason], [false, null, null, null])
    const id = await server.enqueue('k', { queue: 'q' })
    equal(await claim(server), [])
    equal((await server.get('/queues/q')).body.reservation, held)
    equal(await open(server), [held])
    const renewed = (await server.post(`/queues/q/reservations/${held.id}/renew`, { holder: 'gpu', ttlMs: 120000 })).body
    check(Date.parse(renewed.expiresAt) > Date.parse(held.expiresAt))
    const released = (await server.del(`/queues/q/reservations/${held.id}?holder=gpu`)).body
    equal([released.id, released.state], [held.id, 'released'])
    equal(await open(server), [])
    equal((await claim(server))[0].id, id)
})

test('the next in line is granted when the one before is released', async (t) => {
    const server = await startServer(t)
    const first = await reserve(server)
    const second = reserve(server, { holder: 'other' })
    await until('it waits', async () => (await open(server)).length === 2)
    equal(await states(server), ['active', 'waiting'])
    await server.del(`/queues/q/reservations/${first.id}`)
    equal((await second).state, 'active')
})

test('a running job is waited for and the grant follows its end', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('k', { queue: 'q' })
    await claim(server)
    const held = reserve(server)
    await until('it drains', async () => (await states(server))[0] === 'draining')
    await complete(server, id)
    equal((await held).state, 'active')
})

test('a reservation that is not granted in time is a timeout', async (t) => {
    const server = await startServer(t, { settings: { poll_interval_ms: 20 } })
    await reserve(server)
    for (const waitMs of [0, 100]) {
        const problem = await server.refused(409, 'POST', '/queues/q/reservations', { holder: 'b', waitMs })
        equal([problem.type, problem.field], ['reservation-timeout', 'waitMs'])
    }
    equal(await states(server), ['active'])
})

test('a reservation ends with its time', async (t) => {
    const server = await startServer(t, { settings: { poll_interval_ms: 20 } })
    const held = await reserve(server, { ttlMs: 50 })
    await until('it has expired', async () => (await open(server)).length === 0)
    await server.refused(409, 'DELETE', `/queues/q/reservations/${held.id}`)
    await server.refused(409, 'POST', `/queues/q/reservations/${held.id}/renew`, { holder: 'me' })
})

test('who hangs up gives up the place in line', async (t) => {
    const server = await startServer(t)
    const first = await reserve(server)
    const hangUp = new AbortController()
    const left = reserve(server, { holder: 'b', waitMs: 600000 }, { signal: hangUp.signal }).catch((e) => e.name)
    await until('it waits', async () => (await open(server)).length === 2)
    hangUp.abort()
    equal(await left, 'AbortError')
    await until('it has left', async () => (await open(server)).length === 1)
    equal((await open(server))[0].id, first.id)
})

test('a graceful stop gives up the places of those who wait', async (t) => {
    const server = await startServer(t)
    await reserve(server)
    const waits = server.fetch('POST', '/api/v1/queues/q/reservations', { holder: 'b' })
    await until('it waits', async () => (await open(server)).length === 2)
    server.child.kill('SIGTERM')
    equal((await waits).status, 503)
    equal((await server.exited).code, 0)
    await server.start()
    equal(await states(server), ['active'])
})

test('what is wrong with a reservation is told', async (t) => {
    const server = await startServer(t)
    const bad = [
        [{}, 'holder'], [{ holder: '' }, 'holder'], [{ holder: 7 }, 'holder'], [{ holder: 'x'.repeat(501) }, 'holder'],
        [{ holder: 'a', ttlMs: 0 }, 'ttlMs'], [{ holder: 'a', ttlMs: 600001 }, 'ttlMs'],
        [{ holder: 'a', waitMs: -1 }, 'waitMs'], [{ holder: 'a', waitMs: 600001 }, 'waitMs'], [{ holder: 'a', x: 1 }, 'x'],
    ]
    for (const [body, field] of bad)
        equal((await server.refused(400, 'POST', '/queues/q/reservations', body)).field, field)
    await server.refused(404, 'GET', '/queues/q/reservations')
    await server.refused(400, 'GET', '/queues/a%20b/reservations')
    const held = await reserve(server)
    const path = `/queues/q/reservations/${held.id}`
    equal((await server.refused(409, 'POST', `${path}/renew`, { holder: 'thief' })).field, 'holder')
    equal((await server.refused(409, 'DELETE', `${path}?holder=thief`)).field, 'holder')
    equal((await server.refused(400, 'POST', `${path}/renew`, {})).field, 'holder')
    equal((await server.refused(400, 'POST', `${path}/renew`, { holder: 'me', ttlMs: 600001 })).field, 'ttlMs')
    await server.refused(400, 'DELETE', `${path}?who=me`)
    await server.enqueue('k', { queue: 'other' })
    await server.refused(404, 'DELETE', `/queues/other/reservations/${held.id}`)
    await server.refused(404, 'POST', `/queues/other/reservations/${held.id}/renew`, { holder: 'me' })
    await server.refused(404, 'DELETE', '/queues/q/reservations/999999999')
    await server.refused(404, 'DELETE', '/queues/q/reservations/x')
    equal((await open(server))[0], held)
})

// ---- direct calls ----

const commands = `
[command echo]
argv = /bin/sh -c 'cat; echo'
[command fail]
argv = /bin/false
[command hang]
argv = /bin/sleep 1000
`

test('a direct call runs its job at once and answers with its outcome', async (t) => {
    const server = await startServer(t, { config: commands })
    const waiting = await server.enqueue('remote', { queue: 'q', priority: 9 })
    const { status, body } = await server.post('/queues/q/direct', { kind: 'echo', payload: { n: 1 } })
    equal([status, body.state, body.result, body.queue], [200, 'completed', { n: 1 }, 'q'])
    equal([body.maxRetries, body.onCrash], [0, 'fail'])
    check(body.maxExecutionTimeMs <= 300000)
    equal(await open(server), [])
    const failed = (await server.post('/queues/q/direct', { kind: 'fail' })).body
    equal([failed.state, failed.retryState, failed.retryReason], ['failed', 'final', 'exhausted'])
    equal((await claim(server))[0].id, waiting)
})

test('a direct call of a remote kind is run by a worker that may take nothing else', async (t) => {
    const server = await startServer(t)
    const call = server.post('/queues/q/direct?ttlMs=60000&holder=batch', { kind: 'k', priority: 1 })
    const held = await until('it is made', async () => {
        const answer = await server.fetch('GET', '/api/v1/queues/q/reservations')
        return answer.status === 200 && answer.body.items.find((v) => v.jobId)
    })
    equal([held.state, held.direct, held.holder], ['active', true, 'batch'])
    await server.enqueue('k', { queue: 'q', priority: 9 })
    const { runs } = (await server.post('/claim', { session: 's1', queues: ['q'], count: 10 })).body
    equal(runs.map((r) => r.id), [held.jobId])
    const [run] = runs
    equal(await claim(server, 's2'), [])
    await complete(server, run.id)
    equal((await call).body.state, 'completed')
    equal(await open(server), [])
})

test('hanging up cancels the job and the release follows its end', async (t) => {
    const server = await startServer(t, { config: commands })
    const hangUp = new AbortController()
    const left = server.post('/queues/q/direct', { kind: 'hang' }, { signal: hangUp.signal }).catch((e) => e.name)
    const id = await until('it runs', async () => {
        const answer = await server.fetch('GET', '/api/v1/queues/q/reservations')
        return answer.status === 200 && answer.body.items[0]?.jobId
    })
    await until('it runs', async () => (await server.get(`/jobs/${id}`)).body.state === 'running')
    hangUp.abort()
    equal(await left, 'AbortError')
    const job = await server.outcome(id)
    equal([job.state, job.error.type], ['cancelled', 'cancelled'])
    equal(await open(server), [])
})

test('a direct job that nobody executes is cancelled with the hold', async (t) => {
    const server = await startServer(t, { settings: { poll_interval_ms: 20 } })
    const { body } = await server.post('/queues/q/direct?ttlMs=2000', { kind: 'nobodys' })
    equal([body.state, body.error.type], ['cancelled', 'cancelled'])
    has(body.error.message, 'direct call')
    equal(await open(server), [])
})

test('a direct job may take no longer than the hold', async (t) => {
    const server = await startServer(t, { config: commands, settings: { poll_interval_ms: 20 } })
    const { body } = await server.post('/queues/q/direct?ttlMs=2000', { kind: 'hang' })
    equal([body.state, body.error.type], ['failed', 'timeout'])
    await until('the hold is over', async () => (await open(server)).length === 0)
})

test('a crash leaves neither a held queue nor a direct job for later', async (t) => {
    const server = await startServer(t, { config: commands })
    const calls = [
        server.fetch('POST', '/api/v1/queues/q/direct', { kind: 'nobodys' }),
        server.fetch('POST', '/api/v1/queues/other/direct', { kind: 'hang' }),
    ].map((call) => call.catch((e) => e.code))
    const jobs = await until('both jobs are made', async () => {
        const found = []
        for (const queue of ['q', 'other']) {
            const answer = await server.fetch('GET', `/api/v1/queues/${queue}/reservations`)
            found.push(answer.body.items?.[0]?.jobId)
        }
        return found.every((id) => id) && found
    })
    await until('one runs', async () => (await server.get(`/jobs/${jobs[1]}`)).body.state === 'running')
    await server.killAll()
    await Promise.all(calls)
    await server.start()
    await server.ready()
    const [waited, ran] = [await server.outcome(jobs[0]), await server.outcome(jobs[1])]
    equal([waited.state, ran.state, ran.error.type, ran.retryReason], ['cancelled', 'failed', 'crash', 'crash_policy'])
    equal([await open(server), (await server.get('/queues/other')).body.reservation], [[], null])
})

test('a direct call waits for the queue or says that it waited in vain', async (t) => {
    const server = await startServer(t, { config: commands, settings: { poll_interval_ms: 20 } })
    const held = await reserve(server)
    equal((await server.refused(409, 'POST', '/queues/q/direct?waitMs=50', { kind: 'echo' })).type, 'reservation-timeout')
    const call = server.post('/queues/q/direct', { kind: 'echo', payload: {} })
    await until('it waits', async () => (await open(server)).length === 2)
    await server.del(`/queues/q/reservations/${held.id}`)
    equal((await call).body.state, 'completed')
})

test('what is wrong with a direct call is told and holds nothing', async (t) => {
    const server = await startServer(t)
    const bad = [
        [{}, 'kind'], [{ kind: 'a', queue: 'other' }, 'queue'], [{ kind: 'a', runAt: '2040-01-01T00:00:00Z' }, 'runAt'],
        [{ kind: 'a', delayMs: 1 }, 'delayMs'], [{ kind: 'a', maxRetries: 1 }, 'maxRetries'],
        [{ kind: 'a', onCrash: 'retry' }, 'onCrash'], [{ kind: 'a', colour: 1 }, 'colour'],
    ]
    for (const [body, field] of bad) equal((await server.refused(400, 'POST', '/queues/q/direct', body)).field, field)
    for (const query of ['ttlMs=0', 'ttlMs=600001', 'waitMs=x', 'holder=', 'x=1'])
        await server.refused(400, 'POST', `/queues/q/direct?${query}`, { kind: 'a' })
    await server.refused(400, 'POST', '/queues/q/direct', '{')
    await server.enqueue('a', { queue: 'q', uniqueKey: 'u', delayMs: 1000000 })
    await server.refused(409, 'POST', '/queues/q/direct', { kind: 'a', uniqueKey: 'u' })
    await server.refused(404, 'POST', '/queues/q/direct', { kind: 'a', project: 'nobodys' })
    await until('nothing is held', async () => (await open(server)).length === 0)
})
