// SPDX-License-Identifier: Apache-2.0
//
// Jobs over HTTP: made, shown, waited for, changed, cancelled, retried; and every way
// to ask for one wrongly.
import { startServer } from './lib/server.mjs'
import { check, equal, has, test } from './lib/test.mjs'

test('a job gets the defaults of the manual', async (t) => {
    const server = await startServer(t)
    const { status, body } = await server.post('/jobs', { kind: 'crawl' })
    equal(status, 201)
    check(/^[1-9][0-9]*$/.test(body.id))
    for (const [name, value] of Object.entries({
        project: 'default', queue: 'default', kind: 'crawl', state: 'queued', payload: null, priority: 5,
        attempt: 1, maxRetries: 3, retriesLeft: 3, retryOf: null, maxExecutionTimeMs: 1800000,
        deduplicated: false, uniqueKey: null, expiresAt: null, startedAt: null, error: null, result: null,
    }))
        equal(body[name], value, name)
    const shown = (await server.get(`/jobs/${body.id}`)).body
    delete body.deduplicated
    equal(shown, body)
})

test('a job keeps what it was given and its payload byte for byte', async (t) => {
    const server = await startServer(t)
    const text = `{"kind":"crawl","queue":"q.1","priority":9,"uniqueKey":"ü","maxRetries":1,
        "retryDelaysSeconds":[1,2],"maxExecutionTimeMs":5000,"onCrash":"fail","metadata":{"a":"b"},
        "runAt":"2040-01-01T00:00:00Z","payload": {"n":0.10, "big":123456789012345678901234567890} }`
    const { body } = await server.post('/jobs', text)
    const answer = await server.get(`/jobs/${body.id}`)
    has(answer.text, '"payload":{"n":0.10, "big":123456789012345678901234567890}')
    equal(answer.body.state, 'scheduled')
    equal(answer.body.runAt, '2040-01-01T00:00:00.000Z')
    equal([answer.body.queue, answer.body.priority, answer.body.uniqueKey], ['q.1', 9, 'ü'])
    equal([answer.body.maxRetries, answer.body.onCrash, answer.body.metadata], [1, 'fail', { a: 'b' }])
})

const bad = [
    ['no kind', {}, 'kind'],
    ['a kind that is no name', { kind: 'a b' }, 'kind'],
    ['a kind of the wrong type', { kind: 7 }, 'kind'],
    ['an unknown field', { kind: 'a', colour: 'red' }, 'colour'],
    ['a priority out of range', { kind: 'a', priority: 10 }, 'priority'],
    ['a priority that is a fraction', '{"kind":"a","priority":1.5}', 'priority'],
    ['runAt that is no time', { kind: 'a', runAt: 'tomorrow' }, 'runAt'],
    ['runAt and delayMs', { kind: 'a', runAt: '2040-01-01T00:00:00Z', delayMs: 1 }, 'delayMs'],
    ['a negative delay', { kind: 'a', delayMs: -1 }, 'delayMs'],
    ['uniqueKey and sourceId', { kind: 'a', uniqueKey: 'x', sourceId: 'x' }, 'sourceId'],
    ['a key that is too long', { kind: 'a', uniqueKey: 'x'.repeat(501) }, 'uniqueKey'],
    ['onConflict of another word', { kind: 'a', uniqueKey: 'x', onConflict: 'ignore' }, 'onConflict'],
    ['too many retries', { kind: 'a', maxRetries: 101 }, 'maxRetries'],
    ['an empty list of delays', { kind: 'a', retryDelaysSeconds: [] }, 'retryDelaysSeconds'],
    ['no time to execute', { kind: 'a', maxExecutionTimeMs: 0 }, 'maxExecutionTimeMs'],
    ['half an hour and more for http', { kind: 'http', payload: { url: 'http://a/' }, maxExecutionTimeMs: 1800001 }, 'maxExecutionTimeMs'],
    ['metadata of numbers', { kind: 'a', metadata: { a: 1 } }, 'metadata'],
    ['an http job without url', { kind: 'http', payload: {} }, 'url'],
]

test('what is wrong with a job is told with the field', async (t) => {
    const server = await startServer(t)
    for (const [what, body, field] of bad) {
        const problem = await server.refused(400, 'POST', '/jobs', body)
        check(problem.field?.includes(field), `${what}: ${JSON.stringify(problem)}`)
    }
    for (const text of ['', '{', '[]', '"a"', '{"kind":"a"} x', '{"kind":"a","kind":"b"}'])
        await server.refused(400, 'POST', '/jobs', text)
    await server.refused(404, 'POST', '/jobs', { kind: 'a', project: 'nobodys' })
    await server.refused(413, 'POST', '/jobs', { kind: 'a', payload: 'x'.repeat(1 << 20) })
})

test('one live job per source', async (t) => {
    const server = await startServer(t)
    const first = await server.post('/jobs', { kind: 'a', sourceId: 's1' })
    const again = await server.post('/jobs', { kind: 'a', sourceId: 's1' })
    equal([again.status, again.body.id, again.body.deduplicated], [200, first.body.id, true])
    const problem = await server.refused(409, 'POST', '/jobs', { kind: 'a', uniqueKey: 's1', onConflict: 'reject' })
    has(problem.detail, first.body.id)
    const newer = await server.post('/jobs', { kind: 'a', uniqueKey: 's1', onConflict: 'replace' })
    equal(newer.status, 201)
    equal((await server.get(`/jobs/${first.body.id}`)).body.state, 'cancelled')
})

test('the same idempotency key and body is the same job', async (t) => {
    const server = await startServer(t)
    const headers = { 'idempotency-key': 'k1' }
    const first = await server.post('/jobs', { kind: 'a' }, { headers })
    const again = await server.post('/jobs', { kind: 'a' }, { headers })
    equal([again.status, again.body.id], [200, first.body.id])
    await server.refused(422, 'POST', '/jobs', { kind: 'b' }, { headers })
})

test('a batch is all or nothing and the one to blame is named', async (t) => {
    const server = await startServer(t)
    const { status, body } = await server.post('/jobs/batch', { jobs: [{ kind: 'a' }, { kind: 'b' }] })
    equal([status, body.ids.length], [201, 2])
    const problem = await server.refused(400, 'POST', '/jobs/batch', { jobs: [{ kind: 'a' }, { kind: 'b', priority: 0 }] })
    has(problem.field, 'jobs[1]')
    const key = { kind: 'a', uniqueKey: 'x', onConflict: 'reject' }
    await server.refused(409, 'POST', '/jobs/batch', { jobs: [key, key] })
    equal((await server.post('/jobs', key)).status, 201)
    await server.refused(400, 'POST', '/jobs/batch', { jobs: [] })
    await server.refused(400, 'POST', '/jobs/batch', {})
})

test('a job that runs here is waited for', async (t) => {
    const server = await startServer(t, { config: "[command greet]\nargv = /bin/sh -c 'cat; echo; echo \"{}\"'\n" })
    const id = await server.enqueue('greet', { payload: { to: 'you' } })
    const job = await server.outcome(id)
    equal([job.state, job.result], ['completed', {}])
    equal((await server.get(`/jobs/${id}?waitMs=0`)).body.state, 'completed')
    await server.refused(400, 'GET', `/jobs/${id}?waitMs=x`)
    await server.refused(400, 'GET', `/jobs/${id}?wait=1`)
    await server.refused(404, 'GET', '/jobs/999999999?waitMs=1000')
    await server.refused(404, 'GET', '/jobs/x1')
})

test('a waiting job is changed and a running one is not', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('a', { delayMs: 3600000 })
    const job = (await server.patch(`/jobs/${id}`, { priority: 8, queue: 'other' })).body
    equal([job.priority, job.queue, job.state], [8, 'other', 'scheduled'])
    await server.refused(400, 'PATCH', `/jobs/${id}`, {})
    await server.refused(400, 'PATCH', `/jobs/${id}`, { state: 'completed' })
    await server.refused(404, 'PATCH', '/jobs/999999999', { priority: 1 })
    await server.post(`/jobs/${id}/cancel`)
    await server.refused(409, 'PATCH', `/jobs/${id}`, { priority: 1 })
})

test('cancelling and retrying by hand', async (t) => {
    const server = await startServer(t, { config: '[command fail]\nargv = /bin/false\nmax_retries = 0\n' })
    const waiting = await server.enqueue('a')
    const cancelled = (await server.post(`/jobs/${waiting}/cancel`, { reason: 'not needed' })).body
    equal([cancelled.state, cancelled.error.type, cancelled.error.message], ['cancelled', 'cancelled', 'not needed'])
    const failed = await server.outcome(await server.enqueue('fail'))
    equal([failed.state, failed.retryState, failed.retryReason], ['failed', 'final', 'exhausted'])
    const retry = (await server.post(`/jobs/${failed.id}/retry`)).body
    equal([retry.retryOf, retry.attempt], [failed.id, 2])
    equal((await server.outcome(retry.id)).state, 'failed')
    await server.refused(404, 'POST', '/jobs/999999999/cancel')
})

test('what HTTP itself asks for', async (t) => {
    const server = await startServer(t)
    const head = await server.fetch('HEAD', '/healthz')
    equal([head.status, head.text], [200, ''])
    const wrong = await server.fetch('DELETE', '/api/v1/jobs/1')
    equal([wrong.status, wrong.headers.allow], [405, 'GET, PATCH'])
    await server.refused(404, 'GET', '/nothing')
    equal((await server.fetch('GET', '/healthz')).body.status, 'ok')
    await server.ready()
})
