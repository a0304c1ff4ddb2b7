// SPDX-License-Identifier: Apache-2.0
//
// Receivers that are slow, broken or hostile: jobs and other webhooks go on as if they
// were not there, and memory stays what it was.  And where nothing is sent to at all.
import { readFileSync } from 'node:fs'

import { startRaw, startReceiver } from './lib/webhook_receiver.mjs'
import { startServer } from './lib/server.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, note, test, until } from './lib/test.mjs'

const subscribe = async (server, url, more = {}) =>
    (await server.post('/webhooks', { url, events: ['job.enqueued'], timeoutMs: 1000, ...more })).body
const deliveries = async (server, webhook) => (await server.get(`/webhooks/${webhook.id}/deliveries`)).body.items
const failure = (server, webhook) =>
    until('it has failed once', async () => {
        const [first] = (await deliveries(server, webhook)).slice(-1)
        return first?.lastError && first
    })
const memory = (server, name) => Number(readFileSync(`/proc/${server.child.pid}/status`, 'utf8').match(new RegExp(`${name}:\\s+(\\d+)`))[1]) / 1024

// Writes as much as the other end takes, for ever.
function pour(socket, piece) {
    const more = () => {
        while (!socket.destroyed && socket.write(piece));
    }
    socket.on('drain', more)
    more()
}
const block = Buffer.alloc(65536, 'x')
const hostile = {
    hangs: () => {},
    'closes at once': (socket) => socket.destroy(),
    'answers garbage': (socket) => socket.end('\x16\x03\x01 220 mail.example.com ESMTP\r\n\r\n'),
    'sends a gigabyte': (socket) => {
        socket.write('HTTP/1.1 500 No\r\nContent-Length: 1073741824\r\n\r\n')
        pour(socket, block)
    },
    'sends headers for ever': (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n')
        pour(socket, `X-More: ${'y'.repeat(1000)}\r\n`)
    },
    'continues for ever': (socket) => pour(socket, 'HTTP/1.1 100 Continue\r\n\r\n'),
    'drips its answer': (socket) => {
        const all = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n'
        let i = 0
        const drip = setInterval(() => socket.destroyed || socket.write(all[i++] ?? 'x'), 100)
        socket.on('close', () => clearInterval(drip))
    },
    'sends chunks without end': (socket) => {
        socket.write('HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n')
        pour(socket, Buffer.concat([Buffer.from('10000\r\n'), block, Buffer.from('\r\n')]))
    },
}

test('whatever receivers do jobs and other webhooks go on and memory stays', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t)
    const good = await startReceiver(t)
    const bad = {}
    for (const [name, act] of Object.entries(hostile)) {
        const raw = await startRaw(t, act)
        bad[name] = { raw, webhook: await subscribe(server, raw.url, { inFlight: 8 }) }
    }
    await subscribe(server, good.url())
    await server.outcome(await server.enqueue('http', { payload: { url: target.url('/first') } }))
    const before = memory(server, 'VmRSS')
    const ids = []
    for (let i = 0; i < 100; i++) ids.push(await server.enqueue('http', { payload: { url: target.url('/job') } }))
    for (const id of ids) equal((await server.outcome(id)).state, 'completed')
    await until('the good one has all', () => good.got.length >= ids.length + 1)
    for (const [name, { raw, webhook }] of Object.entries(bad)) {
        check(raw.requests > 0, `${name}: was asked`)
        const first = await failure(server, webhook)
        check(first.lastError.length > 20, `${name}: ${first.lastError}`)
    }
    const after = memory(server, 'VmRSS')
    const most = memory(server, 'VmHWM')
    check(most - before < 64, `memory was ${before} MiB, is ${after}, and was ${most} at most`)
    note(`memory ${before.toFixed(0)} MiB before, ${most.toFixed(0)} at most`)
})

test('a job ends while the delivery of its beginning still hangs', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t)
    const raw = await startRaw(t, () => {})
    const webhook = await subscribe(server, raw.url, { timeoutMs: 60000, events: ['job.*'] })
    const id = await server.enqueue('http', { payload: { url: target.url('/a') } })
    await until('the delivery hangs', () => raw.requests === 1)
    for (let i = 0; i < 20; i++) await server.outcome(await server.enqueue('http', { payload: { url: target.url('/b') } }))
    equal((await server.outcome(id)).state, 'completed')
    equal(raw.requests, 1) // still the first, and none behind it
    const list = await deliveries(server, webhook)
    check(list.every((d) => d.state === 'pending' && d.lastStatus === null), 'none has ended')
})

test('many receivers that hang leave room for one that does not', async (t) => {
    const server = await startServer(t)
    const raw = await startRaw(t, () => {})
    const good = await startReceiver(t)
    for (let i = 0; i < 20; i++) await subscribe(server, raw.url, { timeoutMs: 60000, inFlight: 64 })
    const jobs = Array.from({ length: 200 }, () => ({ kind: 'remote' }))
    await server.post('/jobs/batch', { jobs })
    await until('they hang', () => raw.requests >= 200)
    await subscribe(server, good.url())
    await server.post('/jobs/batch', { jobs })
    await until('the good one has all', () => good.got.length === jobs.length)
    check(raw.requests <= 256, `${raw.requests} at once`)
})

// ---- where nothing is sent to ----

const metadata = [
    'http://169.254.169.254/latest/meta-data/',
    'http://2852039166/',
    'http://0xa9fea9fe/',
    'http://0251.0376.0251.0376/',
    'http://169.254.43518/',
    'http://[::ffff:169.254.169.254]/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[fe80::1]/',
    'http://[fd00:ec2::254]/',
]

test('metadata services are out of reach of webhooks in every spelling', async (t) => {
    const server = await startServer(t)
    const all = []
    for (const url of metadata) all.push([url, await subscribe(server, url)])
    await server.enqueue('remote')
    for (const [url, webhook] of all) {
        const first = await failure(server, webhook)
        check(first.lastError.includes('requests never go there'), `${url}: ${first.lastError}`)
    }
})

test('metadata services are out of reach of http jobs also by a redirect', async (t) => {
    const server = await startServer(t)
    const lead = await startReceiver(t)
    const http = async (payload) => {
        const job = await server.outcome(await server.enqueue('http', { payload, maxRetries: 0 }))
        equal([job.state, job.error.class], ['failed', 'address_refused'])
        has(job.error.message, 'requests never go there')
    }
    for (const url of [...metadata, 'http://good.example@169.254.169.254/']) await http({ url })
    for (const url of metadata) {
        lead.answer = (d, response) => response.writeHead(307, { location: url }).end()
        await http({ url: lead.url('/lead'), body: {} })
    }
})

test('metadata services are out of reach of endpoints', async (t) => {
    const server = await startServer(t)
    const lead = await startReceiver(t)
    lead.answer = (d, response) => response.writeHead(308, { location: metadata[0] }).end()
    for (const [i, url] of [...metadata, lead.url('/lead')].entries()) {
        const made = await server.post('/projects/default/endpoints', { name: `e${i}`, url, body: {} })
        const { id } = (await server.post(`/projects/default/endpoints/${made.body.id}/run`)).body
        const job = await server.outcome(id)
        equal([job.state, job.error.class], ['failed', 'address_refused'])
    }
})

test('a denied network is out of reach by number and by name', async (t) => {
    const server = await startServer(t, { settings: { deny_networks: '127.0.0.0/8,::1' } })
    const raw = await startRaw(t, () => {})
    const hosts = ['127.0.0.1', 'localhost', 'LocalHost', '2130706433', '0x7f.1', '0177.0.0.1', '[::1]', '[::ffff:7f00:1]', '0.0.0.0']
    for (const host of hosts) {
        const url = `http://${host}:${raw.port}/`
        const webhook = await subscribe(server, url)
        const job = await server.outcome(await server.enqueue('http', { payload: { url }, maxRetries: 0 }))
        has(job.error.message, 'which deny_networks denies')
        has((await failure(server, webhook)).lastError, 'which deny_networks denies')
    }
    equal(raw.connections, 0)
})
