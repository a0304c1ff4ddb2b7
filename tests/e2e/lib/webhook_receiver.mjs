// SPDX-License-Identifier: Apache-2.0
//
// webhook_receiver.mjs -- where webhooks are delivered to: it keeps what it got, and answers as
// it is told.
//
//   const receiver = await startReceiver(t)
//   receiver.answer = (delivery, response) => response.writeHead(500).end()
//   receiver.got            all deliveries: { id, headers, text, body, path }
//   receiver.verify(secret, delivery)    by the npm package standardwebhooks; it throws
import http from 'node:http'
import net from 'node:net'

import { Webhook } from 'standardwebhooks'

const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', 4096, done))

export async function startReceiver(t) {
    const got = []
    const server = http.createServer((request, response) => {
        let text = ''
        request.setEncoding('utf8')
        request.on('data', (d) => (text += d))
        request.on('end', () => {
            const { headers, url: path } = request
            const delivery = { id: headers['webhook-id'], headers, text, body: JSON.parse(text), path }
            got.push(delivery)
            receiver.answer(delivery, response)
        })
    })
    server.keepAliveTimeout = 60_000
    await listen(server)
    t.defer(() => {
        server.closeAllConnections()
        server.close()
    })
    const receiver = {
        got,
        answer: (delivery, response) => response.end('{}'),
        url: (path = '/') => `http://127.0.0.1:${server.address().port}${path}`,
        of: (type) => got.filter((d) => d.body.type === type),
        verify: (secret, delivery) => new Webhook(secret).verify(delivery.text, delivery.headers),
    }
    return receiver
}

// A server that does with each connection what `act(socket)` does once a request's head
// is there.
export async function startRaw(t, act) {
    const sockets = new Set()
    const raw = { connections: 0, requests: 0 }
    const server = net.createServer((socket) => {
        raw.connections++
        sockets.add(socket)
        let head = ''
        socket.on('error', () => {})
        socket.on('close', () => sockets.delete(socket))
        socket.on('data', (d) => {
            if (head.includes('\r\n\r\n')) return
            head += d
            if (!head.includes('\r\n\r\n')) return
            raw.requests++
            act(socket)
        })
    })
    await listen(server)
    t.defer(() => {
        for (const socket of sockets) socket.destroy()
        server.close()
    })
    raw.port = server.address().port
    raw.url = `http://127.0.0.1:${raw.port}/`
    return raw
}
