// SPDX-License-Identifier: Apache-2.0
//
// Queues, projects, recoveries and stats: shown and changed over HTTP.
import { startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const defaults = {
    slots: 10, concurrency: 0, staleAfterMs: 1800000, maxRetries: 3, retryDelaysSeconds: [60, 300, 900],
    maxExecutionTimeMs: 1800000, onCrash: 'retry',
}
const unset = Object.fromEntries(Object.keys(defaults).map((name) => [name, null]))
const pick = (from, names) => Object.fromEntries(Object.keys(names).map((name) => [name, from[name]]))

test('a queue is there from its first mention and shows its counts and settings', async (t) => {
    const server = await startServer(t)
    const problem = await server.refused(404, 'GET', '/queues/crawl')
    has(problem.detail, 'crawl')
    equal((await server.get('/queues')).body, { items: [] })
    const id = await server.enqueue('remote-kind', { queue: 'crawl' })
    await server.enqueue('remote-kind', { queue: 'crawl', delayMs: 3600000 })
    await server.enqueue('remote-kind', { queue: 'b' })
    const queue = (await server.get('/queues/crawl')).body
    equal(pick(queue, defaults), defaults)
    equal(queue.own, unset)
    equal([queue.fixed, queue.paused, queue.pausedAt, queue.pausedReason], [[], false, null, null])
    equal(queue.counts, { scheduled: 1, queued: 1, running: 0, cancelling: 0, completed: 0, failed: 0, cancelled: 0 })
    equal([queue.accepted, queue.pruned, queue.reservation], [2, 0, null])
    check(queue.oldestQueuedAgeMs >= 0)
    equal(queue.oldestQueuedAt, (await server.get(`/jobs/${id}`)).body.runAt)
    const { items } = (await server.get('/queues')).body
    equal(items.map((q) => q.name), ['b', 'crawl'])
    await server.post(`/jobs/${id}/cancel`)
    const emptied = (await server.get('/queues/crawl')).body
    equal([emptied.counts.cancelled, emptied.oldestQueuedAt, emptied.oldestQueuedAgeMs], [1, null, null])
    await server.refused(400, 'GET', '/queues?limit=1')
    await server.refused(400, 'GET', '/queues/a%20b')
})

test('the oldest queued job is found behind every priority', async (t) => {
    const server = await startServer(t)
    const old = (await server.post('/jobs', { kind: 'k', queue: 'q', priority: 1, runAt: '2020-01-01T00:00:00Z' })).body
    await server.enqueue('k', { queue: 'q', priority: 9 })
    equal((await server.get('/queues/q')).body.oldestQueuedAt, old.runAt)
})

test('settings of a queue are changed and given back to the default', async (t) => {
    const server = await startServer(t)
    const own = {
        slots: 0, concurrency: 7, staleAfterMs: 1000, maxRetries: 0, retryDelaysSeconds: [1, 2],
        maxExecutionTimeMs: 5, onCrash: 'fail',
    }
    const changed = (await server.patch('/queues/q', own)).body
    equal(pick(changed, own), own)
    equal(changed.own, own)
    const job = (await server.post('/jobs', { kind: 'k', queue: 'q' })).body
    equal([job.maxRetries, job.maxExecutionTimeMs, job.onCrash], [0, 5, 'fail'])
    const curve = { baseSeconds: 10, capSeconds: 3600, jitterPercent: 5 }
    equal((await server.patch('/queues/q', { retryDelaysSeconds: curve })).body.retryDelaysSeconds, curve)
    equal((await server.patch('/queues/q', { slots: null })).body.own, { ...own, slots: null, retryDelaysSeconds: curve })
    const restored = (await server.patch('/queues/q', unset)).body
    equal([pick(restored, defaults), restored.own], [defaults, unset])
})

test('what is wrong with a setting is told with the field', async (t) => {
    const server = await startServer(t)
    const bad = [
        [{ slots: 10001 }, 'slots'], [{ slots: -1 }, 'slots'], [{ slots: '5' }, 'slots'], [{ slots: 1.5 }, 'slots'],
        [{ concurrency: 1000001 }, 'concurrency'], [{ staleAfterMs: 999 }, 'staleAfterMs'],
        [{ maxRetries: 101 }, 'maxRetries'], [{ retryDelaysSeconds: [] }, 'retryDelaysSeconds'],
        [{ retryDelaysSeconds: 'often' }, 'retryDelaysSeconds'], [{ maxExecutionTimeMs: 0 }, 'maxExecutionTimeMs'],
        [{ onCrash: 'ignore' }, 'onCrash'], [{ onCrash: 1 }, 'onCrash'], [{ paused: true }, 'paused'],
    ]
    for (const [body, field] of bad) equal((await server.refused(400, 'PATCH', '/queues/q', body)).field, field)
    for (const body of ['{}', '', '[]', '{'])
        await server.refused(400, 'PATCH', '/queues/q', body)
    await server.refused(400, 'PATCH', '/queues/a%2Fb', { slots: 1 })
    await server.refused(404, 'GET', '/queues/q')
})

test('what the configuration file sets is changed there', async (t) => {
    const server = await startServer(t, { config: '[queue crawl]\nslots = 6\nretry_delays_seconds = 5\n' })
    await until('the file is applied', async () => (await server.fetch('GET', '/api/v1/queues/crawl')).status === 200)
    const queue = (await server.get('/queues/crawl')).body
    equal([queue.slots, queue.retryDelaysSeconds, queue.fixed], [6, [5], ['slots', 'retryDelaysSeconds']])
    const problem = await server.refused(409, 'PATCH', '/queues/crawl', { slots: 7, concurrency: 2 })
    equal(problem.field, 'slots')
    has(problem.detail, 'configuration file')
    equal((await server.refused(409, 'PATCH', '/queues/crawl', { retryDelaysSeconds: null })).field, 'retryDelaysSeconds')
    equal((await server.get('/queues/crawl')).body.concurrency, 0)
    equal((await server.patch('/queues/crawl', { slots: 6, concurrency: 2 })).body.concurrency, 2)
})

test('a paused queue starts nothing until it is resumed', async (t) => {
    const server = await startServer(t, { config: '[command greet]\nargv = /bin/true\nqueue = q\n' })
    await server.refused(404, 'POST', '/queues/q/resume')
    const paused = (await server.post('/queues/q/pause', { reason: 'maintenance' })).body
    equal([paused.paused, paused.pausedReason], [true, 'maintenance'])
    check(Date.parse(paused.pausedAt) > 0)
    const id = await server.enqueue('greet')
    equal((await server.post('/queues/q/pause', { reason: 'again' })).body.pausedAt, paused.pausedAt)
    equal((await server.get(`/jobs/${id}?waitMs=300`)).body.state, 'queued')
    await server.refused(400, 'POST', '/queues/q/pause', { why: 'x' })
    await server.refused(400, 'POST', '/queues/q/pause', { reason: 'x'.repeat(501) })
    await server.refused(400, 'POST', '/queues/q/resume', { reason: 'x' })
    const resumed = (await server.post('/queues/q/resume')).body
    equal([resumed.paused, resumed.pausedAt, resumed.pausedReason], [false, null, null])
    equal((await server.outcome(id)).state, 'completed')
})

test('projects are made explicitly and once', async (t) => {
    const server = await startServer(t)
    const { status, body } = await server.post('/projects', { name: 'shop' })
    equal([status, body.name], [201, 'shop'])
    check(Date.parse(body.createdAt) > 0 && /^\d+$/.test(body.id))
    equal((await server.refused(409, 'POST', '/projects', { name: 'shop' })).field, 'name')
    const { items } = (await server.get('/projects')).body
    equal(items.map((p) => p.name), ['default', 'shop'])
    equal(items[1], body)
    equal((await server.post('/jobs', { kind: 'k', project: 'shop' })).body.project, 'shop')
    equal((await server.refused(400, 'POST', '/projects', {})).field, 'name')
    equal((await server.refused(400, 'POST', '/projects', { name: 'a b' })).field, 'name')
    await server.refused(400, 'POST', '/projects', { name: 'a', colour: 'red' })
    await server.refused(400, 'GET', '/projects?x=1')
})

test('stats add up', async (t) => {
    const server = await startServer(t, { config: '[command ok]\nargv = /bin/true\n' })
    await server.outcome(await server.enqueue('ok'))
    await server.enqueue('remote')
    const gone = await server.enqueue('remote', { delayMs: 1000000, queue: 'other' })
    await server.post(`/jobs/${gone}/cancel`)
    const stats = await until('the node has counted', async () => {
        const { body } = await server.get('/stats')
        return body.node.completed === 1 && body
    })
    equal(stats.counts, { scheduled: 0, queued: 1, running: 0, cancelling: 0, completed: 1, failed: 0, cancelled: 1 })
    equal(stats.totals, { accepted: 3, live: 1, terminal: 2, pruned: 0 })
    check(stats.version && stats.node.uptimeMs >= 0 && stats.node.commits > 0 && stats.node.perSecond.completed >= 0)
    equal([stats.node.started, stats.node.failed, stats.node.running], [1, 0, 0])
    check(stats.node.meanCommitMs > 0 && stats.node.meanBatch > 0 && stats.node.meanBatch <= stats.node.largestBatch, JSON.stringify(stats.node))
    await server.ready()
    equal((await server.get('/stats')).body.node.recovering, false)
    await server.refused(400, 'GET', '/stats?x=1')
})

test('a recovery is reported with every job it dealt with', async (t) => {
    const server = await startServer(t, {
        config: "[command hang]\nargv = /bin/sh -c 'echo ::progress 1 begun; exec sleep 1000'\n",
        settings: { slots: 5 },
    })
    const ids = []
    for (let i = 0; i < 3; i++) ids.push(await server.enqueue('hang', { maxRetries: i ? 3 : 0 }))
    // A supervisor that has only been started would outlive killAll(), and be adopted.
    for (const id of ids) await until('it has begun', async () => (await server.get(`/jobs/${id}`)).body.progress !== null)
    await server.killAll()
    await server.start()
    await server.ready()
    const { items, nextCursor } = (await server.get('/recoveries')).body
    const recovery = items.find((r) => r.report.runningFailed === 3)
    equal([recovery.type, recovery.report.retriesCreated, nextCursor], ['start', 2, null])
    equal(recovery.report.kinds, { hang: 3 })
    const first = (await server.get(`/recoveries/${recovery.id}?limit=2`)).body
    equal([first.id, first.items.length], [recovery.id, 2])
    const rest = (await server.get(`/recoveries/${recovery.id}?cursor=${first.nextCursor}`)).body
    const all = [...first.items, ...rest.items]
    equal(all.map((i) => i.jobId), ids)
    equal(all.map((i) => [i.kind, i.queue, i.verdict]), ids.map(() => ['hang', 'default', 'crashed']))
    equal(all.map((i) => i.retryId !== null), [false, true, true])
    check(all.every((i) => i.ranForMs >= 0))
    equal((await server.get('/recoveries?limit=1')).body.nextCursor, items[0].id)
    equal((await server.get(`/recoveries?cursor=${items[0].id}`)).body.items.length, items.length - 1)
    await server.refused(404, 'GET', '/recoveries/999999999')
    await server.refused(404, 'GET', '/recoveries/x')
    await server.refused(400, 'GET', '/recoveries?limit=0')
    await server.refused(400, 'GET', '/recoveries?cursor=x')
})
