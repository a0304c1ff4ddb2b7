// SPDX-License-Identifier: Apache-2.0
//
// Endpoints over HTTP, against a receiver that really answers: their life, their runs,
// how they fare, and that their secrets are nowhere.
import { startReceiver } from './lib/receiver.mjs'
import { onPostgres, sql, startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const endpoints = '/projects/default/endpoints'
const make = async (server, body) => (await server.post(endpoints, body)).body
const show = async (server, id) => (await server.get(`${endpoints}/${id}`)).body
const run = async (server, id) => (await server.post(`${endpoints}/${id}/run`)).body

const ended = (server, id) =>
    until(`job ${id} has ended`, async () => {
        const { body } = await server.get(`/jobs/${id}`)
        return ['completed', 'failed', 'cancelled'].includes(body.state) && body
    })

const typesOf = async (server, id) => (await server.get(`/jobs/${id}/events`)).body.items.map((e) => e.type)

test('an endpoint is made, shown, listed, changed and deleted', async (t) => {
    const server = await startServer(t)
    const made = await server.post(endpoints, { name: 'sync', url: 'https://example.com/hook?a=1', cron: '0 3 * * *', timeZone: 'Europe/Berlin' })
    equal(made.status, 201)
    const e = made.body
    equal([e.name, e.project, e.url, e.method, e.headers, e.body], ['sync', 'default', 'https://example.com/hook?a=1', 'POST', {}, null])
    equal([e.maxExecutionTimeMs, e.timeoutMs, e.expectedStatuses], [60000, null, ['200-299']])
    equal([e.cron, e.timeZone, e.everyMs, e.status], ['0 3 * * *', 'Europe/Berlin', null, 'active'])
    equal([e.runCount, e.failureCount, e.failuresInRow, e.successRate, e.durationMs], [0, 0, 0, null, null])
    check(Date.parse(e.nextFireAt) > Date.now())
    equal(await show(server, e.id), e)
    // it is a schedule, too
    const schedule = (await server.get(`/schedules/${e.id}`)).body
    equal([schedule.kind, schedule.payload, schedule.endpointId], ['http', { endpointId: e.id }, e.id])
    equal((await server.refused(400, 'PATCH', `/schedules/${e.id}`, { kind: 'k' })).field, 'kind')

    const changed = (await server.patch(`${endpoints}/${e.id}`, {
        method: 'PUT', body: { n: 1 }, timeoutMs: 5000, maxExecutionTimeMs: 300000, expectedStatuses: [200, '404-410'], everyMs: 60000,
    })).body
    equal([changed.url, changed.method, changed.body, changed.timeoutMs, changed.maxExecutionTimeMs], [e.url, 'PUT', { n: 1 }, 5000, 300000])
    equal([changed.expectedStatuses, changed.cron, changed.everyMs], [[200, '404-410'], null, 60000])
    const reset = (await server.patch(`${endpoints}/${e.id}`, { method: null, body: null, timeoutMs: null, maxExecutionTimeMs: null, expectedStatuses: null })).body
    equal([reset.method, reset.body, reset.timeoutMs, reset.maxExecutionTimeMs, reset.expectedStatuses], ['POST', null, null, 60000, ['200-299']])

    const more = await Promise.all(['a', 'b', 'c'].map((name) => make(server, { name, url: 'http://a' })))
    const first = (await server.get(`${endpoints}?limit=3`)).body
    const second = (await server.get(`${endpoints}?limit=3&cursor=${first.nextCursor}`)).body
    equal([...first.items, ...second.items].map((i) => i.id), [e.id, ...more.map((m) => m.id)].sort((a, b) => a - b))
    equal(second.nextCursor, null)
    equal((await server.del(`${endpoints}/${e.id}`)).status, 204)
    await server.refused(404, 'GET', `${endpoints}/${e.id}`)
    await server.refused(404, 'GET', `/schedules/${e.id}`)
    await server.refused(404, 'DELETE', `${endpoints}/${e.id}`)
})

test('what is wrong with an endpoint is told, with what would be right', async (t) => {
    const server = await startServer(t)
    const good = { name: 'e', url: 'http://a' }
    for (const ms of [0, -1, 1.5, '60000', 1800001, true, [1]]) {
        const problem = await server.refused(400, 'POST', endpoints, { ...good, maxExecutionTimeMs: ms })
        equal(problem.field, 'maxExecutionTimeMs')
        for (const part of ['positive integer', '1800000', '60000']) has(problem.detail, part)
    }
    const bad = [
        [{ url: 'http://a' }, 'name'], [{ name: 'a b', url: 'http://a' }, 'name'], [{ name: 'e' }, 'url'],
        [{ ...good, url: 'ftp://a' }, 'url'], [{ ...good, url: 5 }, 'url'], [{ ...good, method: 'FETCH' }, 'method'],
        [{ ...good, headers: { 'a b': 'c' } }, 'headers'], [{ ...good, headers: { a: 5 } }, 'headers'],
        [{ ...good, headers: { a: { value: 'b', colour: 'red' } } }, 'headers'], [{ ...good, headers: { a: { secret: true } } }, 'headers'],
        [{ ...good, headers: { a: {} } }, 'headers'], [{ ...good, headers: { 'Content-Length': '5' } }, 'headers'], [{ ...good, headers: [] }, 'headers'],
        [{ ...good, timeoutMs: 0 }, 'timeoutMs'], [{ ...good, timeoutMs: 60001 }, 'timeoutMs'],
        [{ ...good, timeoutMs: 2000, maxExecutionTimeMs: 1999 }, 'timeoutMs'], [{ ...good, expectedStatuses: [] }, 'expectedStatuses'],
        [{ ...good, expectedStatuses: [99] }, 'expectedStatuses'], [{ ...good, method: 'HEAD', body: 'x' }, 'body'],
        [{ ...good, cron: '61 * * * *' }, 'cron'], [{ ...good, cron: '* * * * *', timeZone: 'Mars/Olympus' }, 'timeZone'],
        [{ ...good, everyMs: 10 }, 'everyMs'], [{ ...good, cron: '* * * * *', everyMs: 1000 }, 'everyMs'],
        [{ ...good, colour: 'red' }, 'colour'], [{ ...good, kind: 'k' }, 'kind'], [{ ...good, payload: {} }, 'payload'],
    ]
    for (const [body, field] of bad) {
        const problem = await server.refused(400, 'POST', endpoints, body)
        equal([problem.field, problem.detail.includes('payload.')], [field, false], JSON.stringify(body))
    }
    equal((await server.get(endpoints)).body.items, []) // nothing of what was refused
    equal(sql(server.store, 'SELECT count(*) FROM endpoints'), '0')
    equal((await make(server, { ...good, maxExecutionTimeMs: 1800000 })).maxExecutionTimeMs, 1800000)
    equal((await server.refused(409, 'POST', endpoints, good)).field, 'name')
    const e = await make(server, { name: 'f', url: 'http://a', timeoutMs: 50000 })
    equal((await server.refused(400, 'PATCH', `${endpoints}/${e.id}`, { maxExecutionTimeMs: 49999 })).field, 'timeoutMs')
    equal((await server.refused(400, 'PATCH', `${endpoints}/${e.id}`, { url: null })).field, 'url')
    await server.refused(400, 'PATCH', `${endpoints}/${e.id}`, {})
    await server.refused(404, 'POST', '/projects/none/endpoints', good)
    await server.post('/projects', { name: 'other' })
    for (const [method, path] of [['GET', ''], ['PATCH', ''], ['DELETE', ''], ['POST', '/run'], ['POST', '/pause'], ['POST', '/resume'], ['GET', '/runs']]) {
        await server.refused(404, method, `/projects/other/endpoints/${e.id}${path}`, method === 'PATCH' ? { url: 'http://b' } : undefined)
        await server.refused(404, method, `${endpoints}/77${path}`, method === 'PATCH' ? { url: 'http://b' } : undefined)
    }
    const plain = (await server.post('/schedules', { name: 's', kind: 'k' })).body
    await server.refused(404, 'GET', `${endpoints}/${plain.id}`)
    await server.refused(404, 'DELETE', `${endpoints}/${plain.id}`)
    // only an endpoint makes such jobs
    equal((await server.refused(400, 'POST', '/jobs', { kind: 'http', payload: { endpointId: e.id } })).field, 'payload.endpointId')
    equal((await server.refused(400, 'POST', '/schedules', { name: 'x', kind: 'http', payload: { endpointId: e.id } })).field, 'payload.endpointId')
    equal((await show(server, e.id)).url, 'http://a')
})

test('a run sends the request as it is then and keeps the response', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t, ({ path }) =>
        path === '/b' ? { status: 202, headers: { 'x-a': 'b' }, body: 'y'.repeat(70000) } : { body: 'hello' })
    const e = await make(server, { name: 'e', url: receiver.url('/a'), headers: { 'x-plain': 'p' }, body: { n: 1 } })
    const made = await server.post(`${endpoints}/${e.id}/run`)
    equal(made.status, 201)
    const job = await ended(server, made.body.id)
    equal([job.state, job.kind, job.payload, job.maxExecutionTimeMs], ['completed', 'http', { endpointId: e.id }, 60000])
    const [got] = receiver.got('/a')
    equal([got.method, got.headers['x-plain'], JSON.parse(got.body), got.headers['holdfast-run-id']], ['POST', 'p', { n: 1 }, job.id])
    await server.patch(`${endpoints}/${e.id}`, { url: receiver.url('/b'), method: 'GET', body: null })
    const second = await ended(server, (await run(server, e.id)).id)
    equal([receiver.got('/b')[0].method, receiver.got('/b')[0].headers['x-plain']], ['GET', 'p'])
    const { items, nextCursor } = (await server.get(`${endpoints}/${e.id}/runs`)).body
    equal([items.map((r) => r.jobId), nextCursor], [[second.id, job.id], null])
    equal([items[0].state, items[0].attempt, items[0].response.status, items[0].response.headers['x-a']], ['completed', 1, 202, 'b'])
    equal([items[0].response.truncated, items[0].response.body.length], [true, 65536])
    equal([items[1].response.body, items[1].response.truncated, items[1].error], ['hello', false, null])
    check(items[1].durationMs >= 0 && items[1].startedAt <= items[1].finishedAt)
    const page = (await server.get(`${endpoints}/${e.id}/runs?limit=1`)).body
    equal(page.items.map((r) => r.jobId), [second.id])
    equal((await server.get(`${endpoints}/${e.id}/runs?limit=1&cursor=${page.nextCursor}`)).body.items.map((r) => r.jobId), [job.id])
    const fares = await show(server, e.id)
    equal([fares.runCount, fares.failureCount, fares.failuresInRow, fares.lastStatus, fares.lastError, fares.successRate], [2, 0, 0, 202, null, 1])
    check(fares.durationMs.p50 <= fares.durationMs.p95 && fares.lastStartedAt <= fares.lastFinishedAt)
})

test('an endpoint with an interval is called again and again', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const e = await make(server, { name: 'e', url: receiver.url('/a'), everyMs: 1000 })
    await until('it was called twice', () => receiver.got('/a').length >= 2)
    const paused = (await server.post(`${endpoints}/${e.id}/pause`, { reason: 'enough' })).body
    equal([paused.paused, paused.status, paused.pausedReason, paused.nextFireAt], [true, 'paused', 'enough', null])
    equal((await server.post(`${endpoints}/${e.id}/resume`)).body.paused, false)
    // and with its project
    await server.post('/projects/default/pause')
    const still = await show(server, e.id)
    equal([still.paused, still.pausedWithProject, still.nextFireAt], [true, true, null])
    const born = await make(server, { name: 'later', url: receiver.url('/b'), everyMs: 1000 })
    equal([born.paused, born.pausedWithProject], [true, true])
    await server.post('/projects/default/resume')
    await until('both are called again', () => receiver.got('/b').length >= 1)
    equal((await show(server, e.id)).paused, false)
})

test('failures in a row, the last error and the next try are shown', async (t) => {
    const server = await startServer(t)
    let status = 500
    const receiver = await startReceiver(t, () => ({ status }))
    const e = await make(server, { name: 'e', url: receiver.url('/a?key=hidden'), maxRetries: 1, retryDelaysSeconds: [3600] })
    const job = await ended(server, (await run(server, e.id)).id)
    equal([job.state, job.error.class], ['failed', 'http_500'])
    const failing = await until('it is settled', async () => {
        const shown = await show(server, e.id)
        return shown.failuresInRow === 1 && shown
    })
    equal([failing.runCount, failing.failureCount, failing.lastStatus, failing.successRate], [1, 1, 500, 0])
    has(failing.lastError, '500')
    check(!failing.lastError.includes('hidden'))
    equal([failing.nextTryAt, failing.lastErrorAt !== null], [job.nextRetryAt, true])
    check((await typesOf(server, job.id)).includes('endpoint.failed'))
    // overlap = skip: while its retry waits, running it by hand gives that one
    const live = await server.post(`${endpoints}/${e.id}/run`)
    equal([live.status, live.body.id], [200, job.retriedBy])
    await server.post(`/jobs/${job.id}/retry`) // now
    const again = await ended(server, job.retriedBy)
    equal(again.state, 'failed')
    equal((await show(server, e.id)).failuresInRow, 2)
    check(!(await typesOf(server, again.id)).includes('endpoint.failed')) // told once
    status = 200
    const well = await ended(server, (await run(server, e.id)).id)
    equal(well.state, 'completed')
    check((await typesOf(server, well.id)).includes('endpoint.recovered'))
    const fares = await show(server, e.id)
    equal([fares.failuresInRow, fares.failureCount, fares.runCount, fares.lastStatus, fares.nextTryAt], [0, 2, 3, 200, null])
    equal(fares.successRate, 0.3333)
    check(fares.lastError && fares.lastErrorAt)
    const runs = (await server.get(`${endpoints}/${e.id}/runs`)).body.items
    equal(runs.map((r) => [r.state, r.attempt, r.response.status, r.error?.type]), [['completed', 1, 200, undefined], ['failed', 2, 500, 'other'], ['failed', 1, 500, 'other']])
})

test('a start within seconds of the last one is worth a warning', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const e = await make(server, { name: 'e', url: receiver.url('/a') })
    const first = await ended(server, (await run(server, e.id)).id)
    const second = await ended(server, (await run(server, e.id)).id)
    equal([(await typesOf(server, first.id)).includes('endpoint.duplicate_start'), (await typesOf(server, second.id)).includes('endpoint.duplicate_start')], [false, true])
    has(server.stderr, `endpoint_duplicate_start endpoint=${e.id} job=${second.id}`)
    has((await server.fetch('GET', '/metrics')).text, 'holdfast_endpoint_duplicate_starts_total 1')
    // each lock has its lines
    for (const id of [first.id, second.id]) {
        has(server.stderr, `lock_taken endpoint=${e.id} job=${id} run=${id} owner=`)
        has(server.stderr, `lock_released endpoint=${e.id} job=${id} run=${id} owner=`)
    }
})

test('an endpoint that was deleted is not called any more', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const e = await make(server, { name: 'e', url: receiver.url('/a'), queue: 'q' })
    await server.post('/queues/q/pause')
    const job = await run(server, e.id)
    await server.del(`${endpoints}/${e.id}`)
    await server.post('/queues/q/resume')
    const over = await ended(server, job.id)
    equal([over.state, over.error.type, over.error.message, over.retryReason ?? over.retryState], ['failed', 'permanent', 'The endpoint was deleted.', over.retryReason ?? 'final'])
    equal(receiver.got('/a').length, 0)
})

test('its secrets are nowhere', async (t) => {
    const server = await startServer(t, { settings: { log_level: 'debug', event_level: 'all' } })
    let status = 500
    const receiver = await startReceiver(t, () => ({ status }))
    const secret = 'Bearer s3cr3t-of-the-endpoint'
    const texts = []
    const keep = async (answer) => {
        texts.push((await answer).text)
        return (await answer).body
    }
    const e = await keep(server.post(endpoints, { name: 'e', url: receiver.url('/a'), maxRetries: 0, headers: { Authorization: { value: secret, secret: true }, 'x-open': 'seen' } }))
    equal(e.headers, { Authorization: { secret: true }, 'x-open': 'seen' })
    const sent = () => receiver.got('/a').at(-1).headers.authorization
    const go = async () => {
        const job = await keep(server.post(`${endpoints}/${e.id}/run`))
        await ended(server, job.id)
        await keep(server.get(`/jobs/${job.id}`))
        await keep(server.get(`/jobs/${job.id}/events`))
        await keep(server.get(`/jobs/${job.id}/explain`))
    }
    await go()
    equal(sent(), secret)
    // kept by a change of something else, and by giving back what was shown
    await keep(server.patch(`${endpoints}/${e.id}`, { body: 'x' }))
    const shown = await keep(server.get(`${endpoints}/${e.id}`))
    equal(shown.headers, e.headers)
    equal((await keep(server.patch(`${endpoints}/${e.id}`, { headers: { ...shown.headers, more: 'm' } }))).headers, { ...e.headers, more: 'm' })
    status = 200
    await go()
    equal([sent(), receiver.got('/a').at(-1).headers.more], [secret, 'm'])
    for (const path of [endpoints, `${endpoints}/${e.id}/runs`, '/schedules', `/schedules/${e.id}`, '/jobs', '/projects/default']) await keep(server.get(path))
    await server.refused(400, 'PATCH', `${endpoints}/${e.id}`, { headers: { Authorization: { value: `${secret}\u0001`, secret: true } } }).then((p) => texts.push(JSON.stringify(p)))
    for (const text of texts) check(!text.includes('s3cr3t'), text)
    check(!server.stderr.includes('s3cr3t'))
    // in the store it is in the endpoint's own row, and goes with it
    const tables = onPostgres
        ? sql(server.store, `SELECT table_name FROM information_schema.tables WHERE table_schema = 'holdfast'`)
        : sql(server.store, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
    const dump = () => tables.split('\n').map((name) => [name, sql(server.store, `SELECT * FROM ${name}`)]).filter(([, rows]) => rows.includes('s3cr3t')).map(([name]) => name)
    equal(dump(), ['endpoints'])
    // another value, and then none
    equal((await server.patch(`${endpoints}/${e.id}`, { headers: { Authorization: { value: 'new', secret: true } } })).body.headers, { Authorization: { secret: true } })
    await go()
    equal(sent(), 'new')
    equal(dump(), [])
    equal((await server.patch(`${endpoints}/${e.id}`, { headers: null })).body.headers, {})
})

test('who is bound to a project sees its endpoints and changes none', async (t) => {
    const admin = 'the-token-of-the-admin'
    const server = await startServer(t, { env: { HOLDFAST_ADMIN_TOKEN: admin } })
    server.token = admin
    await until('tokens are read', async () => (await server.fetch('GET', '/api/v1/projects')).status === 200)
    await server.post('/projects', { name: 'shop' })
    const mine = (await server.post('/projects/shop/endpoints', { name: 'e', url: 'http://a' })).body
    const other = await make(server, { name: 'e', url: 'http://a' })
    for (const role of ['viewer', 'producer']) {
        const { token } = (await server.post('/tokens', { name: role, role, project: 'shop' })).body
        const as = { headers: { authorization: `Bearer ${token}` } }
        equal((await server.get('/projects/shop/endpoints', as)).body.items.map((i) => i.id), [mine.id])
        equal((await server.get(`/projects/shop/endpoints/${mine.id}`, as)).body.id, mine.id)
        await server.refused(404, 'GET', endpoints, undefined, as)
        await server.refused(404, 'GET', `${endpoints}/${other.id}`, undefined, as)
        await server.refused(404, 'GET', `/projects/shop/endpoints/${other.id}`, undefined, as)
        await server.refused(403, 'POST', `/projects/shop/endpoints/${mine.id}/run`, {}, as)
        await server.refused(403, 'POST', '/projects/shop/endpoints', { name: 'f', url: 'http://a' }, as)
    }
})
