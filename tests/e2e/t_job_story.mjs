// SPDX-License-Identifier: Apache-2.0
//
// What became of one job, over HTTP: its chain, its timeline, its output.
import { run, startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const failing = '[command fail]\nargv = /bin/sh -c \'echo out; echo err >&2; exit 3\'\nmax_retries = 0\n'

test('a chain is shown from its root to its tail from any of its jobs', async (t) => {
    const server = await startServer(t, { config: failing })
    const chain = [await server.enqueue('fail', { payload: 'x'.repeat(1000) })]
    for (let i = 0; i < 3; i++) {
        await server.outcome(chain.at(-1))
        chain.push((await server.post(`/jobs/${chain[0]}/retry`)).body.id)
    }
    await server.outcome(chain.at(-1))
    for (const id of chain) {
        const { items, nextCursor } = (await server.get(`/jobs/${id}/chain`)).body
        equal([items.map((job) => job.id), nextCursor], [chain, null])
        equal(items.map((job) => job.attempt), [1, 2, 3, 4])
    }
    const first = (await server.get(`/jobs/${chain[2]}/chain?limit=3`)).body
    equal([first.items.map((job) => job.id), first.nextCursor], [chain.slice(0, 3), chain[2]])
    const rest = (await server.get(`/jobs/${chain[0]}/chain?limit=3&cursor=${first.nextCursor}`)).body
    equal([rest.items.map((job) => job.id), rest.nextCursor], [[chain[3]], null])
    equal(rest.items[0], (await server.get(`/jobs/${chain[3]}`)).body)
})

for (const level of ['notable', 'all'])
    test(`a timeline has each thing once with event_level ${level}`, async (t) => {
        const server = await startServer(t, { config: `${failing}[command ok]\nargv = /bin/true\n`, settings: { event_level: level } })
        const types = async (id) => (await server.get(`/jobs/${id}/events`)).body.items.map((e) => e.type)

        const good = await server.enqueue('ok')
        await server.outcome(good)
        equal(await types(good), ['job.enqueued', 'job.run.started', 'job.run.completed'])

        const bad = await server.enqueue('fail')
        await server.outcome(bad)
        const retry = (await server.post(`/jobs/${bad}/retry`)).body.id
        await server.outcome(retry)
        equal(await types(bad), ['job.enqueued', 'job.run.started', 'job.run.failed', 'job.retried'])

        const waiting = await server.enqueue('later', { delayMs: 3600000, queue: 'q' })
        await server.patch(`/jobs/${waiting}`, { priority: 7 })
        await server.post(`/jobs/${waiting}/cancel`, { reason: 'enough' })
        const whole = (await server.get(`/jobs/${waiting}/events`)).body
        equal(whole.items.map((e) => e.type), ['job.enqueued', 'job.changed', 'job.cancelled'])
        equal(whole.items[2].data.reason, 'enough')
        for (const e of whole.items) equal([e.jobId, e.queue, e.project], [waiting, 'q', 'default'])
        check(whole.items.every((e, i) => i === 0 || e.at >= whole.items[i - 1].at))

        const paged = []
        for (let cursor = ''; cursor !== null;) {
            const page = (await server.get(`/jobs/${waiting}/events?limit=1${cursor}`)).body
            paged.push(...page.items)
            cursor = page.nextCursor && `&cursor=${page.nextCursor}`
        }
        equal(paged, whole.items)
    })

test('output is there while a command runs and after it', async (t) => {
    const config = `${failing}[command slow]\nargv = /bin/sh -c 'echo begun; while test ! -e "${t.folder}/go"; do sleep 0.05; done; echo done'\n`
    const server = await startServer(t, { config })
    const slow = await server.enqueue('slow')
    const early = await until('something is printed', async () => {
        const answer = await server.fetch('GET', `/api/v1/jobs/${slow}/output`)
        return answer.status === 200 && answer.text.includes('begun') && answer
    })
    check(!early.text.includes('done'))
    equal((await server.get(`/jobs/${slow}`)).body.state, 'running')
    const { writeFileSync } = await import('node:fs')
    writeFileSync(`${t.folder}/go`, '')
    await server.outcome(slow)
    const late = (await server.get(`/jobs/${slow}/output`)).text
    has(late, 'begun')
    has(late, 'done')

    const failed = await server.enqueue('fail')
    await server.outcome(failed)
    const both = (await server.get(`/jobs/${failed}/output`)).text
    has(both, 'out')
    has(both, 'err')

    const waiting = await server.enqueue('remote')
    has((await server.refused(404, 'GET', `/jobs/${waiting}/output`)).detail, 'nothing yet')
    await server.post(`/jobs/${waiting}/cancel`)
    has((await server.refused(404, 'GET', `/jobs/${waiting}/output`)).detail, 'cancelled')
})

test('why a job is where it is is told alike by the server and the store', async (t) => {
    const server = await (await startServer(t, { config: failing })).ready()
    const waiting = await server.enqueue('remote', { queue: 'held' })
    const later = await server.enqueue('remote', { delayMs: 3600000 })
    const failed = await server.enqueue('fail')
    await server.outcome(failed)
    await server.post('/queues/held/pause', { reason: 'for repairs' })
    for (const [id, state, codes, part] of [
        [waiting, 'queued', ['paused', 'no_worker'], 'for repairs'],
        [later, 'scheduled', ['due_later'], 'in 1'],
        [failed, 'failed', ['error', 'exhausted'], 'out of retries'],
    ]) {
        const why = (await server.get(`/jobs/${id}/explain`)).body
        equal([why.id, why.state, why.reasons.map((r) => r.code)], [id, state, codes])
        has(why.summary, part)
        equal(why.reasons[0].until !== null, state === 'scheduled')
        const env = { ...process.env, HOLDFAST_URL: server.address }
        for (const more of [[], ['--db', server.store]]) {
            const { code, stdout } = await run(['explain', id, ...more], { env })
            equal(code, 0)
            has(stdout.replace(/\s+/g, ' '), state === 'scheduled' ? 'It waits for its time' : why.summary)
            const json = JSON.parse((await run(['explain', id, '--json', ...more], { env })).stdout)
            equal([json.id, json.state, json.reasons.map((r) => r.code)], [id, state, codes])
        }
        equal((await run(['explain', '999999', '--db', server.store])).code, 3)
    }
})

test('a story of nobody and what else is wrong', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('a')
    for (const part of ['chain', 'events', 'output', 'explain']) {
        has((await server.refused(404, 'GET', `/jobs/999999/${part}`)).detail, '999999')
        await server.refused(404, 'GET', `/jobs/zero/${part}`)
        await server.refused(400, 'GET', `/jobs/${id}/${part}?colour=red`)
    }
    for (const part of ['chain', 'events'])
        for (const [query, field] of [['limit=0', 'limit'], ['limit=1001', 'limit'], ['cursor=x', 'cursor']])
            equal((await server.refused(400, 'GET', `/jobs/${id}/${part}?${query}`)).field, field)
    equal((await server.get(`/jobs/${id}/events?cursor=999999`)).body, { items: [], nextCursor: null })
})
