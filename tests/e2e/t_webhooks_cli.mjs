// SPDX-License-Identifier: Apache-2.0
//
// holdfast webhooks: every action as an operator types it, against a receiver that
// really answers; secrets that are shown once; what is typed wrong.
import { createHmac, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { clean, good, refused, startCommand, table } from './lib/cli.mjs'
import { startReceiver } from './lib/receiver.mjs'
import { run } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const start = (t, options) => startCommand(t, 'webhooks', options)
const nobody = 'http://127.0.0.1:9/hook' // discard: nobody listens
const secretOf = (text) => text.match(/^Its secret, which is not shown again: (whsec_\S+)$/m)[1]

test('a webhook is added, shown, listed, set, paused, resumed and deleted', async (t) => {
    const [server, ask] = await start(t)
    // nothing happens here that it asks for: what waits for it stays none
    has(await good(ask()), 'No webhooks here. Make one: holdfast webhooks add NAME URL --events job.failed\n')
    const told = await good(ask('add', 'ops', nobody, '--events', 'job.failed, schedule.*', '--events', 'queue.paused', '--timeout-ms', '2000'))
    check(/^Webhook ops \(\d+\): job\.failed,schedule\.\*,queue\.paused\nIts secret, /.test(told), told)
    const made = await ask.json('show', 'ops')
    equal(made, (await server.get(`/webhooks/${made.id}`)).body)
    equal([made.url, made.events, made.timeoutMs, made.project], [nobody, ['job.failed', 'schedule.*', 'queue.paused'], 2000, null])
    equal(await ask.json('show', made.id), made)
    equal((await ask.json()).items, [made])
    has(await good(ask('show', 'ops')), 'events             job.failed,schedule.*,queue.paused\n')
    await good(ask('set', 'ops', '--to', 'http://127.0.0.1:9/b', '--events', 'job.*', '--in-flight', '3', '--name', 'renamed'))
    const set = await ask.json('show', 'renamed')
    equal([set.url, set.events, set.inFlight, set.timeoutMs], ['http://127.0.0.1:9/b', ['job.*'], 3, 2000])
    equal(await good(ask('pause', 'renamed', '--reason', 'a move')), 'renamed is paused; it collects what happens meanwhile\n')
    has(await good(ask('show', 'renamed')), 'because            a move\n')
    const [titles, row] = await table(ask)
    equal(titles.split(/ {2,}/), ['ID', 'NAME', 'PROJECT', 'STATE', 'WAITING', 'LAST OK', 'EVENTS', 'URL'])
    check(/ renamed +- +paused +0 +- +job\.\* +http:/.test(row), row)
    equal(await good(ask('resume', 'renamed')), 'renamed goes on\n')
    equal(await good(ask('delete', 'renamed')), `Webhook ${made.id} is deleted, with its deliveries.\n`)
    await refused(3, 'no webhook renamed', ask('show', 'renamed'))
    await refused(3, `no webhook ${made.id}`, ask('delete', made.id))
    await server.post('/projects', { name: 'shop' })
    await good(ask('add', '42', nobody, '--events', '*', '--project', 'shop')) // a name that looks like an id
    const { id } = await ask.json('show', '42')
    equal([(await ask.json('list', '--project', 'shop')).items.length, (await ask.json('list', '--project', 'default')).items.length], [1, 0])
    equal(await ask.json('delete', '42'), { deleted: id })
})

test('a test tells whether it arrived', async (t) => {
    const [server, ask] = await start(t)
    const receiver = await startReceiver(t, ({ path }) => ({ status: path === '/gone' ? 410 : 200 }))
    const secret = secretOf(await good(ask('add', 'ops', receiver.url('/ops'), '--events', 'job.failed')))
    const told = await good(ask('test', 'ops'))
    check(/^Delivery \d+ was received: 200\n$/.test(told), told)
    const [got] = receiver.got('/ops')
    const signed = `${got.headers['webhook-id']}.${got.headers['webhook-timestamp']}.${got.body}`
    equal(got.headers['webhook-signature'], 'v1,' + createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update(signed).digest('base64'))
    await good(ask('add', 'dead', nobody, '--events', 'job.failed'))
    const failed = await ask('test', 'dead')
    equal([failed.code, failed.stderr], [1, ''])
    check(/^Delivery \d+ failed: .*connect.* Next try: \d{4}-/.test(failed.stdout), failed.stdout)
    check(/ failing /.test((await table(ask)).find((l) => l.includes(' dead '))))
    const json = await ask('test', 'dead', '--json')
    equal([json.code, JSON.parse(json.stdout).state, JSON.parse(json.stdout).tryCount], [1, 'pending', 1])
    has(await good(ask('test', 'dead', '--wait-ms', '0')), 'is on its way')
    await good(ask('pause', 'dead'))
    has(await good(ask('test', 'dead')), 'waits, since the webhook is paused; let it go on: holdfast webhooks resume dead\n')
    await good(ask('add', 'gone', receiver.url('/gone'), '--events', 'job.failed'))
    equal((await ask('test', 'gone')).code, 1)
    equal((await ask.json('show', 'gone')).state, 'disabled')
    await refused(4, 'resume it first', ask('test', 'gone'))
    equal((await server.get('/webhooks')).body.items.length, 3)
})

test('deliveries are listed, shown and sent again, one or many', async (t) => {
    const [server, ask] = await start(t)
    let status = 500
    const receiver = await startReceiver(t, () => ({ status, body: 'it said \x1b[2J this' }))
    await good(ask('add', 'ops', receiver.url('/'), '--events', 'queue.*'))
    equal(await good(ask('deliveries', 'ops')), 'No deliveries here. Send it a test: holdfast webhooks test NAME\n')
    for (const queue of ['a', 'b', 'c']) await server.post(`/queues/${queue}/pause`)
    const all = await until('all were tried', async () => {
        const { items } = await ask.json('deliveries', 'ops')
        return items.length === 3 && items.every((d) => d.tryCount === 1 && !d.sending) && items
    })
    const lines = await table(ask, 'deliveries', 'ops')
    equal([lines.length, lines[0].split(/ {2,}/)], [4, ['ID', 'TYPE', 'JOB', 'STATE', 'TRIES', 'CREATED', 'NEXT', 'ANSWER', 'ERROR']])
    check(/ queue\.paused +- +pending +1 .* 500 /.test(lines[1]), lines[1])
    const shown = await good(ask('delivery', all[0].id))
    for (const words of ['last answer        500', '"type":"queue.paused"', 'try ']) has(shown, words)
    check(!shown.includes('\x1b'), 'a response cannot command the terminal')
    has(await good(ask('deliveries', 'ops', '--type', 'queue.resumed')), 'No deliveries')
    has(await good(ask('deliveries', 'ops', '--limit', '2')), `More with --cursor ${all[1].id}\n`)
    equal((await ask.json('deliveries', 'ops', '--state', 'pending,failed', '--cursor', all[1].id)).items.map((d) => d.id), [all[2].id])
    equal((await ask('resend', all[0].id, '--wait-ms', '30000')).code, 1)
    status = 200
    const told = await good(ask('resend', all[0].id, all[1].id, '--wait-ms', '30000'))
    equal(told, `Delivery ${all[0].id} was received: 200\nDelivery ${all[1].id} was received: 200\n`)
    equal(await good(ask('resend-all', 'ops')), '0 deliveries are sent again, 0 are left alone; those that failed, others with --state\n')
    equal(await good(ask('resend-all', 'ops', '--state', 'pending', '--created-after', '2100-01-01T00:00:00Z')), '0 deliveries are sent again, 0 are left alone\n')
    equal(await ask.json('resend-all', 'ops', '--state', 'pending', '--created-before', '2100-01-01T00:00:00Z'), { resent: 1, skipped: 0 })
    await until('all have arrived', async () => (await ask.json('deliveries', 'ops', '--state', 'delivered')).items.length === 3)
    has(await good(ask('resend', all[0].id)), 'Delivery')
    await refused(3, 'no delivery 7', ask('resend', '7'))
    await refused(3, 'no delivery 7', ask('delivery', '7'))
})

test('a secret is shown when it is made and not again', async (t) => {
    const [server, ask] = await start(t)
    const first = secretOf(await good(ask('add', 'ops', nobody, '--events', '*', '--header', 'Authorization: Bearer hush-hush', '--header', 'X-Team: blue')))
    const second = secretOf(await good(ask('rotate', 'ops')))
    check(first !== second, 'a new one')
    const given = 'whsec_' + randomBytes(32).toString('base64')
    writeFileSync(join(t.folder, 'secret'), given + '\n')
    equal(secretOf(await good(ask('rotate', 'ops', '--secret', `@${t.folder}/secret`, '--overlap-ms', '0'))), given)
    equal((await ask.json('show', 'ops')).oldSecretUntil, null)
    equal((await ask.json('rotate', 'ops', '--secret', given)).secret, given)
    const told = await good(ask('set', 'ops', '--header', 'authorization:', '--header', 'X-Team: red'))
    check(!told.includes('secret'), told)
    equal((await ask.json('show', 'ops')).headerNames, ['X-Team'])
    await good(ask('pause', 'ops'))
    await good(ask('test', 'ops'))
    const [{ id }] = (await ask.json('deliveries', 'ops')).items
    for (const args of [['list'], ['list', '--json'], ['show', 'ops'], ['show', 'ops', '--json'], ['deliveries', 'ops', '--json'], ['delivery', id], ['delivery', id, '--json']]) {
        const text = await good(ask(...args))
        for (const word of [first, second, given, given.slice(6), 'hush-hush', 'blue', 'red"']) check(!text.includes(word), text)
    }
    // whose value is not known cannot be kept, so it must be named
    await good(ask('set', 'ops', '--header', 'X-Key: 1', '--header', 'X-Team: red'))
    await refused(2, "take it away with --header 'X-Key:'", ask('set', 'ops', '--header', 'X-Team: green'))
    equal((await server.get('/webhooks')).body.items[0].headerNames, ['X-Key', 'X-Team'])
    await good(ask('set', 'ops', '--header', ''))
    equal((await ask.json('show', 'ops')).headerNames, [])
})

test('what is typed wrong is told, with an exit code', async (t) => {
    const [server, ask] = await start(t)
    await good(ask('add', 'ops', nobody, '--events', '*'))
    await refused(2, 'it can list, show, add, set, test, deliveries, delivery, resend, resend-all, rotate, pause, resume and delete.', ask('enable', 'ops'))
    await refused(2, 'did you mean rotate?', ask('rotat', 'ops'))
    await refused(2, 'holdfast webhooks add NAME URL', ask('add', 'x', '--events', '*'))
    await refused(2, 'events is missing', ask('add', 'x', nobody))
    await refused(2, 'near it are job.failed', ask('add', 'x', nobody, '--events', 'job.faild'))
    await refused(2, 'events', ask('add', 'x', nobody, '--events', '5'))
    await refused(2, 'events', ask('add', 'x', nobody, '--events', 'job.failed,,*'))
    await refused(2, 'url', ask('add', 'x', 'example.com', '--events', '*'))
    await refused(2, 'whsec_', ask('add', 'x', nobody, '--events', '*', '--secret', 'hush'))
    await refused(3, 'cannot be read', ask('add', 'x', nobody, '--events', '*', '--secret', '@/nowhere'))
    await refused(3, 'no project', ask('add', 'x', nobody, '--events', '*', '--project', 'none'))
    await refused(4, 'There is a webhook ops already', ask('add', 'ops', nobody, '--events', '*'))
    await refused(2, '--reason is no option of "holdfast webhooks resume"', ask('resume', 'ops', '--reason', 'x'))
    await refused(2, 'There is nothing to change; give --to', ask('set', 'ops'))
    await refused(2, 'inFlight', ask('set', 'ops', '--in-flight', '0'))
    await refused(2, 'timeoutMs', ask('set', 'ops', '--timeout-ms', '1'))
    await refused(2, 'pending, delivered or failed', ask('deliveries', 'ops', '--state', 'lost'))
    await refused(2, 'no type of event', ask('deliveries', 'ops', '--type', 'job.lost'))
    await refused(2, 'no delivery\'s id', ask('resend', 'ops'))
    await refused(2, 'no delivery\'s id', ask('delivery', 'ops'))
    await refused(2, 'createdAfter', ask('resend-all', 'ops', '--created-after', 'yesterday'))
    await refused(2, 'overlapMs', ask('rotate', 'ops', '--overlap-ms', '-1'))
    await refused(3, 'There is no webhook nobody; "holdfast webhooks" lists them.', ask('test', 'nobody'))
    await server.post('/webhooks', { name: 'ops', url: nobody, events: ['*'] })
    await refused(2, '2 webhooks are called ops; give the id', ask('show', 'ops'))
    await refused(6, '127.0.0.1:1', run(['webhooks', '--url', 'http://127.0.0.1:1'], { env: clean }))
    equal((await ask.json()).items.map((h) => h.name), ['ops', 'ops']) // nothing of what was refused
})

test('a name cannot command the terminal', async (t) => {
    const [server, ask] = await start(t)
    const { id } = (await server.post('/webhooks', { name: 'a\x1b[2Jb', url: nobody, events: ['*'] })).body
    for (const args of [['list'], ['show', id], ['pause', id], ['resume', id], ['set', id, '--in-flight', '2'], ['rotate', id]]) {
        const text = await good(ask(...args))
        check(!text.includes('\x1b'), JSON.stringify(text))
    }
})
