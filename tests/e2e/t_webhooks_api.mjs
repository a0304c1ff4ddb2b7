// SPDX-License-Identifier: Apache-2.0
//
// Webhooks over HTTP, without a receiver: made, changed, paused, given another secret,
// tested, deleted; their deliveries listed and sent again; what may not be asked for.
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'

import { onPostgres, sql, startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const url = 'http://127.0.0.1:9/hook' // discard: nobody listens
const make = async (server, more = {}) => (await server.post('/webhooks', { url, events: ['*'], ...more })).body
// One that collects and sends nothing, so that what it has stays as it is.
const makePaused = async (server, more) => {
    const { id } = await make(server, more)
    return (await server.post(`/webhooks/${id}/pause`, { reason: 'by the test' })).body
}
const deliveries = async (server, id, query = '') => (await server.get(`/webhooks/${id}/deliveries${query}`)).body.items

test('a webhook is made with its defaults and its secret is shown once', async (t) => {
    const server = await startServer(t)
    const answer = await server.post('/webhooks', { url, events: ['job.failed', 'queue.*'], name: 'ops' })
    const { secret, ...hook } = answer.body
    equal([answer.status, hook.url, hook.events, hook.name, hook.project], [201, url, ['job.failed', 'queue.*'], 'ops', null])
    equal([hook.timeoutMs, hook.inFlight, hook.state, hook.headerNames, hook.pendingCount], [15000, 1, 'active', [], 0])
    check(/^whsec_[A-Za-z0-9+/]{43}=$/.test(secret), secret)
    equal((await server.get(`/webhooks/${hook.id}`)).body, hook)
    const listed = await server.get('/webhooks')
    equal(listed.body, { items: [hook], nextCursor: null })
    check(!listed.text.includes(secret.slice(6)))
})

test('a secret and headers that are given are kept and not shown', async (t) => {
    const server = await startServer(t)
    const secret = 'whsec_' + randomBytes(24).toString('base64')
    const hook = await make(server, { secret, headers: { Authorization: 'Bearer hush-hush', 'X-Team': 'blue' } })
    equal([hook.secret, hook.headerNames], [secret, ['Authorization', 'X-Team']])
    const kept = sql(server.store, `SELECT ${onPostgres ? "encode(secret, 'hex')" : 'hex(secret)'} FROM webhooks`)
    equal(kept.toLowerCase(), Buffer.from(secret.slice(6), 'base64').toString('hex'))
    const changed = await server.patch(`/webhooks/${hook.id}`, { headers: { 'X-Other': 'quiet' } })
    equal(changed.body.headerNames, ['X-Other'])
    const removed = await server.patch(`/webhooks/${hook.id}`, { headers: null })
    equal(removed.body.headerNames, [])
    await server.post(`/webhooks/${hook.id}/test`)
    const [tested] = await deliveries(server, hook.id)
    const texts = [changed.text, removed.text, (await server.get('/webhooks')).text, (await server.get(`/deliveries/${tested.id}`)).text,
        sql(server.store, 'SELECT data FROM events WHERE data IS NOT NULL'), server.stderr]
    for (const text of texts) for (const word of ['hush-hush', 'quiet', secret, secret.slice(6)]) check(!text.includes(word), text)
})

test('a webhook is changed by what is given', async (t) => {
    const server = await startServer(t)
    const { secret, ...hook } = await make(server)
    const changed = (await server.patch(`/webhooks/${hook.id}`, { url: 'https://example.com/x', events: ['job.*'], name: 'n', timeoutMs: 1000, inFlight: 64 })).body
    equal([changed.url, changed.events, changed.name, changed.timeoutMs, changed.inFlight], ['https://example.com/x', ['job.*'], 'n', 1000, 64])
    check(changed.changedAt >= hook.changedAt)
    equal((await server.patch(`/webhooks/${hook.id}`, { name: null })).body.name, null)
})

test('a paused webhook collects, and resuming it begins anew', async (t) => {
    const server = await startServer(t)
    const hook = await makePaused(server, { events: ['job.enqueued'] })
    equal([hook.state, hook.stateReason], ['paused', 'by the test'])
    const id = await server.enqueue('k')
    const [delivery, ...more] = await deliveries(server, hook.id)
    equal([delivery.type, delivery.jobId, delivery.state, delivery.tryCount, more], ['job.enqueued', id, 'pending', 0, []])
    equal((await server.get(`/webhooks/${hook.id}`)).body.pendingCount, 1)
    const resumed = (await server.post(`/webhooks/${hook.id}/resume`)).body
    equal([resumed.state, resumed.stateReason, resumed.failuresInRow], ['active', null, 0])
})

test('a delivery shows what is sent and is sent again by hand', async (t) => {
    const server = await startServer(t)
    const hook = await makePaused(server, { events: ['job.enqueued'], headers: { 'X-Team': 'blue' } })
    const id = await server.enqueue('crawl', { queue: 'q' })
    const [listed] = await deliveries(server, hook.id)
    const shown = (await server.get(`/deliveries/${listed.id}`)).body
    equal(shown.request.body.data.job, { id, project: 'default', queue: 'q', kind: 'crawl', attempt: 1 })
    equal([shown.request.url, shown.request.headers['webhook-id'], shown.request.headers['X-Team'], shown.tries], [url, listed.id, null, []])
    equal([shown.request.body.type, shown.request.body.timestamp], ['job.enqueued', shown.createdAt])
    const again = (await server.post(`/deliveries/${listed.id}/resend`)).body
    equal([again.id, again.state, again.tryCount], [listed.id, 'pending', 0])
    equal((await server.post(`/webhooks/${hook.id}/resend`, { state: 'pending,failed' })).body, { resent: 1, skipped: 0 })
    equal((await server.post(`/webhooks/${hook.id}/resend`)).body, { resent: 0, skipped: 0 })
    equal((await server.post(`/webhooks/${hook.id}/resend`, { state: 'pending', createdAfter: new Date(Date.parse(shown.createdAt) + 1).toISOString() })).body, { resent: 0, skipped: 0 })
    const day = 86400000
    const between = { state: 'pending', createdAfter: new Date(Date.now() - day).toISOString(), createdBefore: new Date(Date.now() + day).toISOString() }
    equal((await server.post(`/webhooks/${hook.id}/resend`, between)).body, { resent: 1, skipped: 0 })
})

test('deliveries are pages, latest first, by state and type', async (t) => {
    const server = await startServer(t)
    const hook = await makePaused(server, { events: ['job.enqueued', 'queue.*'] })
    const ids = []
    for (let i = 0; i < 5; i++) ids.push(await server.enqueue('k'))
    await server.post('/queues/default/pause')
    const seen = []
    let cursor = ''
    for (;;) {
        const page = (await server.get(`/webhooks/${hook.id}/deliveries?limit=2${cursor}`)).body
        seen.push(...page.items)
        if (page.nextCursor === null) break
        cursor = `&cursor=${page.nextCursor}`
    }
    equal(seen.map((d) => d.jobId), [null, ...[...ids].reverse()])
    equal((await deliveries(server, hook.id, '?type=queue.paused')).length, 1)
    equal((await deliveries(server, hook.id, '?type=job.enqueued&state=pending')).length, 5)
    equal(await deliveries(server, hook.id, '?state=delivered,failed'), [])
})

test('a new secret takes over and the old one signs for a while', async (t) => {
    const server = await startServer(t)
    const hook = await make(server)
    const rotated = (await server.post(`/webhooks/${hook.id}/rotate`)).body
    check(rotated.secret !== hook.secret && rotated.secret.startsWith('whsec_'))
    const left = Date.parse(rotated.oldSecretUntil) - Date.parse(rotated.changedAt)
    equal(left, 86400000)
    const given = 'whsec_' + randomBytes(32).toString('base64')
    const atOnce = (await server.post(`/webhooks/${hook.id}/rotate`, { secret: given, overlapMs: 0 })).body
    equal([atOnce.secret, atOnce.oldSecretUntil], [given, null])
    check(!('secret' in (await server.get(`/webhooks/${hook.id}`)).body))
})

test('a test is for that webhook alone', async (t) => {
    const server = await startServer(t)
    const [one, two] = [await makePaused(server), await makePaused(server)]
    const answer = await server.post(`/webhooks/${one.id}/test`)
    equal([answer.status, answer.body.type, answer.body.webhookId], [201, 'webhook.test', one.id])
    equal(answer.body.request.body.data.webhookId, one.id)
    equal((await deliveries(server, two.id, '?type=webhook.test')).length, 0)
})

test('a webhook that is deleted is gone with its deliveries', async (t) => {
    const server = await startServer(t)
    const hook = await makePaused(server, { events: ['job.enqueued'] })
    await server.enqueue('k')
    const [delivery] = await deliveries(server, hook.id)
    equal((await server.del(`/webhooks/${hook.id}`)).status, 204)
    await server.refused(404, 'GET', `/webhooks/${hook.id}`)
    await server.refused(404, 'GET', `/webhooks/${hook.id}/deliveries`)
    await server.refused(404, 'GET', `/deliveries/${delivery.id}`)
    await server.refused(404, 'POST', `/deliveries/${delivery.id}/resend`)
    await until('its deliveries are removed', async () => sql(server.store, 'SELECT count(*) FROM deliveries') === '0')
})

test('what is wrong with a webhook is told by its field', async (t) => {
    const server = await startServer(t)
    const long = 'x'.repeat(101)
    const bad = [
        [{ events: ['*'] }, 'url'], [{ url }, 'events'], [{ url: 7, events: ['*'] }, 'url'],
        [{ url: 'ftp://example.com', events: ['*'] }, 'url'], [{ url: 'http://', events: ['*'] }, 'url'],
        [{ url: 'http://user:secret@example.com/', events: ['*'] }, 'url'],
        [{ url, events: [] }, 'events'], [{ url, events: '*' }, 'events'], [{ url, events: [7] }, 'events'],
        [{ url, events: ['job.faild'] }, 'events'], [{ url, events: ['webhook.test'] }, 'events'],
        [{ url, events: Array(101).fill('*') }, 'events'],
        [{ url, events: ['*'], name: '' }, 'name'], [{ url, events: ['*'], name: long }, 'name'],
        [{ url, events: ['*'], timeoutMs: 999 }, 'timeoutMs'], [{ url, events: ['*'], timeoutMs: 60001 }, 'timeoutMs'],
        [{ url, events: ['*'], timeoutMs: '1000' }, 'timeoutMs'], [{ url, events: ['*'], timeoutMs: 1500.5 }, 'timeoutMs'],
        [{ url, events: ['*'], inFlight: 0 }, 'inFlight'], [{ url, events: ['*'], inFlight: 65 }, 'inFlight'],
        [{ url, events: ['*'], headers: [] }, 'headers'], [{ url, events: ['*'], headers: { 'a b': 'c' } }, 'headers'],
        [{ url, events: ['*'], headers: { 'Webhook-Id': 'c' } }, 'headers'], [{ url, events: ['*'], headers: { 'content-type': 'c' } }, 'headers'],
        [{ url, events: ['*'], headers: { a: 'b\r\nc: d' } }, 'headers'],
        [{ url, events: ['*'], secret: 'hush' }, 'secret'], [{ url, events: ['*'], secret: 'whsec_AAAA' }, 'secret'],
        [{ url, events: ['*'], project: 'a/b' }, 'project'], [{ url, events: ['*'], colour: 'red' }, 'colour'],
    ]
    for (const [body, field] of bad) {
        const problem = await server.refused(400, 'POST', '/webhooks', body)
        equal(problem.field, field, JSON.stringify(body))
        check(!problem.detail.includes('payload') && !problem.detail.includes(':secret@'), problem.detail)
    }
    has((await server.refused(400, 'POST', '/webhooks', { url, events: ['job.faild'] })).detail, 'job.failed')
    equal((await server.refused(404, 'POST', '/webhooks', { url, events: ['*'], project: 'nowhere' })).field, 'project')
    const { id } = await make(server)
    equal((await server.refused(400, 'PATCH', `/webhooks/${id}`, { secret: 'whsec_' })).field, 'secret')
    equal((await server.refused(400, 'PATCH', `/webhooks/${id}`, { url: null })).field, 'url')
    equal((await server.refused(400, 'POST', `/webhooks/${id}/rotate`, { overlapMs: -1 })).field, 'overlapMs')
    equal((await server.refused(400, 'POST', `/webhooks/${id}/resend`, { state: 'lost' })).field, 'state')
    equal((await server.refused(400, 'GET', `/webhooks/${id}/deliveries?type=job.*`)).field, 'type')
    equal((await server.refused(400, 'GET', `/webhooks/${id}/deliveries?state=x`)).field, 'state')
    for (const [method, path] of [['GET', ''], ['PATCH', ''], ['DELETE', ''], ['POST', '/pause'], ['POST', '/resume'], ['POST', '/rotate'],
        ['POST', '/test'], ['POST', '/resend'], ['GET', '/deliveries']])
        await server.refused(404, method, `/webhooks/999999${path}`, method === 'PATCH' || method === 'POST' ? {} : undefined)
})

test('a token of a project sees that project\'s webhooks and changes none', async (t) => {
    const admin = randomBytes(16).toString('hex')
    const server = await startServer(t, { env: { HOLDFAST_ADMIN_TOKEN: admin } })
    server.token = admin
    await until('it has read its tokens', async () => (await server.fetch('GET', '/api/v1/webhooks')).status === 200)
    await server.post('/projects', { name: 'blue' })
    const [blue, other] = [await makePaused(server, { project: 'blue', events: ['job.*'] }), await makePaused(server, { events: ['job.*'] })]
    await server.post('/jobs', { kind: 'k', project: 'blue' })
    const [[hers], [his]] = [await deliveries(server, blue.id), await deliveries(server, other.id)]
    const { token } = (await server.post('/tokens', { name: 'v', role: 'viewer', project: 'blue' })).body
    const as = { headers: { authorization: `Bearer ${token}` } }
    equal((await server.get('/webhooks', as)).body.items.map((w) => w.id), [blue.id])
    equal((await server.get('/webhooks?project=blue')).body.items.map((w) => w.id), [blue.id])
    equal((await server.get(`/webhooks/${blue.id}/deliveries`, as)).body.items.length, 1)
    equal((await server.get(`/deliveries/${hers.id}`, as)).body.id, hers.id)
    await server.refused(404, 'GET', `/webhooks/${other.id}`, undefined, as)
    await server.refused(404, 'GET', `/webhooks/${other.id}/deliveries`, undefined, as)
    await server.refused(404, 'GET', `/deliveries/${his.id}`, undefined, as)
    await server.refused(403, 'GET', '/webhooks?project=default', undefined, as)
    await server.refused(403, 'POST', '/webhooks', { url, events: ['*'] }, as)
    await server.refused(403, 'POST', `/deliveries/${hers.id}/resend`, {}, as)
})

// To write the page anew: WRITE_EVENTS=1 make test ONLY=t_webhooks_api
test('the types of events are those of the manual', async (t) => {
    const server = await startServer(t)
    const { items } = (await server.get('/event-types')).body
    check(items.length > 40 && items.every((type) => type.example && type.meaning.endsWith('.')))
    const sections = items.map((type) => {
        const note = !type.subscribable ? ' (Sent by `POST /webhooks/{id}/test`.)' : type.webhooksOnly ? ' (For webhooks only.)' : ''
        return `### ${type.type}\n${type.meaning}${note}\n\n\`\`\`json\n${JSON.stringify(type.example)}\n\`\`\`\n`
    })
    const file = new URL('../../docs/EVENTS.md', import.meta.url)
    const page = readFileSync(file, 'utf8')
    const wanted = page.slice(0, page.indexOf('### ')) + sections.join('\n')
    if (process.env.WRITE_EVENTS) writeFileSync(file, wanted)
    else equal(page, wanted)
})
