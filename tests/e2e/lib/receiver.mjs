// SPDX-License-Identifier: Apache-2.0
//
// receiver.mjs -- what endpoints call: it keeps what it was sent, and answers as it is
// told.
//
//   const receiver = await startReceiver(t, (request) => ({ status: 500, body: 'no' }))
//   receiver.url('/a')        receiver.got('/a')    // [{ method, path, headers, body }]
//
// An answer may be a promise: the request is held until it is there.
import http from 'node:http'

export async function startReceiver(t, answer = () => ({})) {
    const all = []
    const server = http.createServer((request, response) => {
        let body = ''
        request.setEncoding('utf8')
        request.on('data', (d) => (body += d))
        request.on('end', async () => {
            const got = { method: request.method, path: request.url, headers: request.headers, body }
            all.push(got)
            const { status = 200, headers = {}, body: text = 'ok' } = await answer(got)
            response.writeHead(status, headers)
            response.end(text)
        })
    })
    server.keepAliveTimeout = 1000
    await new Promise((done) => server.listen(0, '127.0.0.1', 4096, done))
    t.defer(() => {
        server.closeAllConnections()
        server.close()
    })
    return {
        url: (path) => `http://127.0.0.1:${server.address().port}${path}`,
        got: (path) => all.filter((r) => r.path === path),
    }
}
