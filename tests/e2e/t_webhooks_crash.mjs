// SPDX-License-Identifier: Apache-2.0
//
// Webhooks through crashes and stops, and between two nodes: what was promised by an
// event arrives, again with the same id where nobody knows whether it did.
import { startReceiver } from './lib/webhook_receiver.mjs'
import { makeStore, onPostgres, sql, startServer } from './lib/server.mjs'
import { check, equal, test, until } from './lib/test.mjs'

const subscribe = async (server, url, more = {}) => (await server.post('/webhooks', { url, events: ['job.enqueued'], ...more })).body
const isDelivered = (server, id) =>
    until(`delivery ${id} is on record`, async () => (await server.get(`/deliveries/${id}`)).body.state === 'delivered')
// A dead node is found so soon on PostgreSQL.
const settings = { lease_ms: 2000 }

test('killed between event and delivery it is sent by the next start', async (t) => {
    const server = await startServer(t, { settings })
    const receiver = await startReceiver(t)
    const webhook = await subscribe(server, receiver.url())
    await server.post(`/webhooks/${webhook.id}/pause`) // so that it stays in the outbox
    const id = await server.enqueue('remote')
    await server.kill()
    await server.start()
    equal(receiver.got.length, 0)
    await server.post(`/webhooks/${webhook.id}/resume`)
    await until('it arrives', () => receiver.got.length === 1)
    equal(receiver.got[0].body.data.job.id, id)
})

test('killed in the middle of enqueueing every acknowledged job is told', async (t) => {
    const server = await startServer(t, { settings })
    const receiver = await startReceiver(t)
    await subscribe(server, receiver.url())
    const acknowledged = []
    let going = true
    const producers = Array.from({ length: 4 }, async () => {
        while (going)
            try {
                acknowledged.push(await server.enqueue('remote'))
            } catch {
                break // it was killed
            }
    })
    await until('some have arrived', () => receiver.got.length > 20)
    await server.kill()
    going = false
    await Promise.all(producers)
    await server.start()
    const told = () => new Set(receiver.got.map((d) => d.body.data.job.id))
    await until('all are told', () => acknowledged.every((id) => told().has(id)))
    // One body for an id, however often it came.
    const bodies = new Map(receiver.got.map((d) => [d.id, d.text]))
    check(receiver.got.every((d) => bodies.get(d.id) === d.text), 'the same body at every try')
})

test('killed while the receiver holds the request it is sent again with the same id', async (t) => {
    const server = await startServer(t, { settings })
    const receiver = await startReceiver(t)
    let hold = true
    receiver.answer = (d, response) => (hold ? null : response.end())
    const webhook = await subscribe(server, receiver.url())
    await server.enqueue('remote')
    await until('it is held', () => receiver.got.length === 1)
    await server.kill()
    hold = false
    await server.start()
    await until('it comes again', () => receiver.got.length === 2)
    const [first, second] = receiver.got
    equal([second.id, second.text], [first.id, first.text])
    receiver.verify(webhook.secret, second)
    await isDelivered(server, first.id)
})

test('killed after the 200 and before it was on record it is sent again with the same id', async (t) => {
    const server = await startServer(t, { settings })
    const receiver = await startReceiver(t)
    let answered = null
    receiver.answer = (d, response) => {
        if (receiver.got.length > 1) return response.end()
        server.child.kill('SIGSTOP') // it cannot read what it is answered
        response.end(() => (answered = d))
    }
    await subscribe(server, receiver.url())
    await server.enqueue('remote').catch(() => {}) // its own answer may be stuck
    await until('it was answered', () => answered)
    await server.kill()
    await server.start()
    await until('it comes again', () => receiver.got.length === 2)
    equal([receiver.got[1].id, receiver.got[1].text], [answered.id, answered.text])
    await isDelivered(server, answered.id)
})

test('a stop does not wait for a receiver that hangs and the next start sends again', async (t) => {
    const server = await startServer(t, { settings })
    const receiver = await startReceiver(t)
    let hold = true
    receiver.answer = (d, response) => (hold ? null : response.end())
    await subscribe(server, receiver.url(), { timeoutMs: 60000 })
    for (let i = 0; i < 3; i++) await server.enqueue('remote')
    await until('it is held', () => receiver.got.length === 1)
    const begun = Date.now()
    await server.stop()
    check(Date.now() - begun < 30_000, 'a timeout of a minute was not waited for')
    hold = false
    await server.start()
    await until('all arrive', () => receiver.got.length === 4)
    equal(receiver.got[1].id, receiver.got[0].id)
    const last = await server.get(`/deliveries/${receiver.got[0].id}`)
    await isDelivered(server, receiver.got[0].id)
    check(last.body.tries.every((x) => x.error === null), 'the stop was no failed try')
})

test('a stop lets a delivery that is under way end', async (t) => {
    const server = await startServer(t, { settings })
    const receiver = await startReceiver(t)
    const held = []
    receiver.answer = (d, response) => held.push(response)
    await subscribe(server, receiver.url())
    await server.enqueue('remote')
    await until('it is held', () => held.length === 1)
    const stopped = server.stop()
    await until('it stops', () => server.stderr.includes(' stopping '))
    held[0].end()
    await stopped
    await server.start()
    await isDelivered(server, receiver.got[0].id)
    equal(receiver.got.length, 1)
})

if (onPostgres)
    test('of two nodes one sends each delivery and what a dead one had the other sends', async (t) => {
        const store = makeStore(t)
        const receiver = await startReceiver(t)
        const a = await startServer(t, { store, settings: { ...settings, node: 'a' }, unchecked: true })
        const b = await startServer(t, { store, settings: { ...settings, node: 'b' } })
        await subscribe(a, receiver.url('/one'))
        await subscribe(b, receiver.url('/many'), { inFlight: 16 })
        const of = (path, ids) => receiver.got.filter((d) => d.path === path && ids.includes(d.body.data.job.id))
        // Each node hears of the other's webhook at its next poll.
        for (const node of [a, b])
            await until('the node knows both', async () => {
                const id = await node.enqueue('remote')
                await until('it is told', () => receiver.got.some((d) => d.body.data.job.id === id))
                return of('/one', [id]).length && of('/many', [id]).length
            })
        const ids = []
        for (let i = 0; i < 50; i++) {
            ids.push(await a.enqueue('remote'))
            ids.push(await b.enqueue('remote'))
        }
        await until('all have arrived', () => of('/one', ids).length >= ids.length && of('/many', ids).length >= ids.length)
        for (const path of ['/one', '/many']) {
            const mine = of(path, ids)
            equal(new Set(mine.map((d) => d.body.data.job.id)).size, ids.length)
            equal(mine.length, ids.length) // no duplicates without a crash
        }
        let held = null
        receiver.answer = (d, response) => {
            if (held) response.end()
            else held = d
        }
        const later = await a.enqueue('remote')
        await until('one is held', () => held)
        const owner = sql(store, `SELECT o.name FROM deliveries d JOIN owners o ON o.id = d.taken_by WHERE d.id = ${held.id}`)
        check(owner === 'a' || owner === 'b', `it is sent by ${owner}`)
        await (owner === 'a' ? a : b).kill()
        await until('it comes again', () => receiver.got.some((d) => d !== held && d.id === held.id && d.text === held.text))
        await until('the other has its own', () => of('/one', [later]).length && of('/many', [later]).length)
    })
