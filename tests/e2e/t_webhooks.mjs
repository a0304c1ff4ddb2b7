// SPDX-License-Identifier: Apache-2.0
//
// Webhooks as a receiver sees them, verified by another implementation of Standard
// Webhooks: signatures, rotation, order, retries, and what an answer means.
import { startReceiver } from './lib/webhook_receiver.mjs'
import { readMetrics } from './lib/metrics.mjs'
import { startServer } from './lib/server.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const secretOf = (n) => `whsec_${Buffer.alloc(32, n).toString('base64')}`

async function subscribe(server, url, more = {}) {
    return (await server.post('/webhooks', { url, events: ['job.*'], ...more })).body
}
const deliveries = async (server, webhook, query = '') => (await server.get(`/webhooks/${webhook.id}/deliveries${query}`)).body.items
const delivery = async (server, id) => (await server.get(`/deliveries/${id}`)).body
// The delivery when it is in this state.
const inState = (server, id, state) =>
    until(`delivery ${id} is ${state}`, async () => {
        const d = await delivery(server, id)
        return d.state === state && d
    })
function throws(act) {
    try {
        act()
    } catch {
        return true
    }
    return false
}

test('what is sent verifies with the secret that was shown once and with no other', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const webhook = await subscribe(server, receiver.url('/hook'), { events: ['job.enqueued'], headers: { 'X-Mine': 'yes' } })
    check(/^whsec_/.test(webhook.secret), 'a secret was made')
    const id = await server.enqueue('remote', { queue: 'mail' })
    const [got] = await until('it arrives', () => receiver.got.length && receiver.got)
    const payload = receiver.verify(webhook.secret, got)
    equal([payload.type, payload.data.job.id, payload.data.job.queue], ['job.enqueued', id, 'mail'])
    check(!Number.isNaN(Date.parse(payload.timestamp)), payload.timestamp)
    check(throws(() => receiver.verify(secretOf(1), got)), 'another secret')
    check(throws(() => receiver.verify(webhook.secret, { ...got, text: `${got.text} ` })), 'another body')
    const moved = { ...got.headers, 'webhook-timestamp': String(Number(got.headers['webhook-timestamp']) + 1) }
    check(throws(() => receiver.verify(webhook.secret, { ...got, headers: moved })), 'another time')
    equal([got.path, got.headers['x-mine'], got.headers['content-type']], ['/hook', 'yes', 'application/json'])
    has(got.headers['user-agent'], 'holdfast/')
    const shown = await inState(server, got.id, 'delivered')
    equal([shown.type, shown.tries.length, shown.tries[0].status], ['job.enqueued', 1, 200])
    check(!server.stderr.includes(webhook.secret) && !JSON.stringify(shown).includes(webhook.secret), 'no secret is shown')
})

test('a given secret signs and while it is replaced both do', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const webhook = await subscribe(server, receiver.url(), { events: ['job.enqueued'], secret: secretOf(7) })
    await server.enqueue('remote')
    await until('it arrives', () => receiver.got.length === 1)
    receiver.verify(secretOf(7), receiver.got[0])
    const { secret } = (await server.post(`/webhooks/${webhook.id}/rotate`)).body
    check(secret !== secretOf(7), 'it is another one')
    await server.enqueue('remote')
    await until('it arrives', () => receiver.got.length === 2)
    receiver.verify(secretOf(7), receiver.got[1])
    receiver.verify(secret, receiver.got[1])
    await server.post(`/webhooks/${webhook.id}/rotate`, { overlapMs: 0 })
    await server.enqueue('remote')
    await until('it arrives', () => receiver.got.length === 3)
    check(throws(() => receiver.verify(secret, receiver.got[2])), 'the old one signs no more')
})

test('deliveries of a subscription arrive in the order of its events and once each', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    await subscribe(server, receiver.url('/a'), { events: ['job.enqueued'] })
    await subscribe(server, receiver.url('/b'), { events: ['job.enqueued'] })
    const ids = []
    for (let i = 0; i < 20; i++) {
        const jobs = Array.from({ length: 20 }, () => ({ kind: 'remote' }))
        ids.push(...(await server.post('/jobs/batch', { jobs })).body.ids)
    }
    await until('all have arrived', () => receiver.got.length >= 2 * ids.length)
    for (const path of ['/a', '/b']) {
        const mine = receiver.got.filter((d) => d.path === path)
        equal(mine.map((d) => d.body.data.job.id), ids)
        equal(new Set(mine.map((d) => d.id)).size, ids.length)
    }
})

test('a job that runs on this node is told from its start to its end', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    await subscribe(server, receiver.url())
    await server.outcome(await server.enqueue('http', { payload: { url: target.url('/a') } }))
    await until('its end arrives', () => receiver.of('job.run.completed').length === 1)
    equal(receiver.got.map((d) => d.body.type), ['job.enqueued', 'job.run.started', 'job.run.completed'])
    await server.outcome(await server.enqueue('http', { payload: { url: target.url('/a'), expectedStatuses: [404] }, maxRetries: 0 }))
    await until('its failure arrives', () => receiver.of('job.failed').length === 1)
    equal(receiver.of('job.run.failed').length, 1)
})

test('a failed try is followed by another with the same id and body', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    receiver.answer = (d, response) => response.writeHead(receiver.got.length === 1 ? 500 : 204).end()
    const webhook = await subscribe(server, receiver.url(), { events: ['job.enqueued'] })
    await server.enqueue('remote')
    await until('it comes again', () => receiver.got.length === 2)
    const [first, second] = receiver.got
    equal([first.id, first.text], [second.id, second.text])
    check(Number(second.headers['webhook-timestamp']) > Number(first.headers['webhook-timestamp']), 'the time is that of the try')
    receiver.verify(webhook.secret, second)
    const shown = await inState(server, first.id, 'delivered')
    equal(shown.tries.map((x) => x.status), [500, 204])
    has(shown.tries[0].error, 'status 500')
})

test('one that failed waits for its time and those behind it do not', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    let bad = null
    receiver.answer = (d, response) => {
        bad ??= d.id
        response.writeHead(d.id === bad && receiver.got.length < 5 ? 500 : 204).end()
    }
    await subscribe(server, receiver.url(), { events: ['job.enqueued'] })
    const jobs = Array.from({ length: 10 }, () => ({ kind: 'remote' }))
    await server.post('/jobs/batch', { jobs })
    await until('all have arrived', () => receiver.got.length === 11)
    equal(receiver.got[10].id, bad)
    equal(new Set(receiver.got.slice(0, 10).map((d) => d.id)).size, 10)
})

test('gone is taken at its word and a redirect is not followed', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    receiver.answer = (d, response) => {
        if (d.path === '/gone') response.writeHead(410).end()
        else if (d.path === '/moved') response.writeHead(308, { location: '/elsewhere' }).end()
        else response.end()
    }
    const gone = await subscribe(server, receiver.url('/gone'), { events: ['job.enqueued'] })
    const moved = await subscribe(server, receiver.url('/moved'), { events: ['job.enqueued'] })
    await server.enqueue('remote')
    await until('it is disabled', async () => (await server.get(`/webhooks/${gone.id}`)).body.state === 'disabled')
    const [refused] = await until('it has failed once', async () => {
        const list = await deliveries(server, moved)
        return list[0]?.lastStatus === 308 && list
    })
    equal(refused.state, 'pending')
    has((await delivery(server, refused.id)).tries[0].error, 'a redirect, which is not followed')
    await server.enqueue('remote')
    await until('the other gets its second', () => receiver.got.filter((d) => d.path === '/moved').length === 2)
    equal(receiver.got.filter((d) => d.path === '/gone').length, 1)
    equal(receiver.got.filter((d) => d.path === '/elsewhere').length, 0)
})

test('Retry-After is not before', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    receiver.answer = (d, response) =>
        d.path === '/429'
            ? response.writeHead(429, { 'retry-after': '3600' }).end()
            : response.writeHead(503, { 'retry-after': new Date(Date.now() + 7_200_000).toUTCString() }).end()
    const wait = async (path, seconds) => {
        const webhook = await subscribe(server, receiver.url(path), { events: ['job.enqueued'] })
        const before = Date.now()
        await server.enqueue('remote')
        const [d] = await until('it has failed once', async () => {
            const list = await deliveries(server, webhook)
            return list[0]?.lastStatus && list
        })
        const ms = Date.parse(d.nextAt) - before
        check(ms >= (seconds - 2) * 1000 && ms < seconds * 1000 + 60_000, `the next try is in ${ms} ms`)
    }
    await wait('/429', 3600)
    await wait('/503', 7200)
})

test('the figures tell of tries and of what is on its way', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    receiver.answer = (d, response) => response.writeHead(d.path === '/bad' ? 500 : 204).end()
    await subscribe(server, receiver.url('/good'), { events: ['job.enqueued'] })
    await subscribe(server, receiver.url('/bad'), { events: ['job.enqueued'] })
    await server.enqueue('remote')
    const tries = (outcome) => `holdfast_delivery_tries_total{outcome="${outcome}"}`
    const values = await until('both are counted', async () => {
        const { values: all } = readMetrics((await server.fetch('GET', '/metrics')).text)
        const told = all.get(tries('delivered')) === 1 && all.get(tries('failed')) >= 1
        return told && all.get('holdfast_deliveries_pending') === 1 && all // read a moment before
    })
    equal(values.get('holdfast_deliveries_total'), 2)
    check(values.get('holdfast_oldest_pending_delivery_age_seconds') > 0, 'the one that failed waits')
    check(values.get('holdfast_delivery_seconds_count') >= 2, 'each try has its time')
    equal([values.get('holdfast_deliveries_failed_total'), values.get('holdfast_webhooks_disabled_total')], [0, 0])
})

test('it is sent again by hand with the same id', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    await subscribe(server, receiver.url(), { events: ['job.enqueued'] })
    await server.enqueue('remote')
    await until('it arrives', () => receiver.got.length === 1)
    const { id } = receiver.got[0]
    await inState(server, id, 'delivered')
    await server.post(`/deliveries/${id}/resend`)
    await until('it arrives again', () => receiver.got.length === 2)
    equal([receiver.got[1].id, receiver.got[1].text], [id, receiver.got[0].text])
})

test('a paused webhook collects and sends when it is resumed', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const webhook = await subscribe(server, receiver.url(), { events: ['job.enqueued'] })
    await server.post(`/webhooks/${webhook.id}/pause`)
    const ids = []
    for (let i = 0; i < 5; i++) ids.push(await server.enqueue('remote'))
    equal((await deliveries(server, webhook)).map((d) => d.state), Array(5).fill('pending'))
    equal(receiver.got.length, 0)
    await server.post(`/webhooks/${webhook.id}/resume`)
    await until('all arrive', () => receiver.got.length === 5)
    equal(receiver.got.map((d) => d.body.data.job.id), ids)
})
