// SPDX-License-Identifier: Apache-2.0
//
// target.mjs -- what jobs of kind http call: it counts requests by path, and answers
// when it is told to.
//
//   const target = await startTarget(t)
//   target.url('/a')            target.count('/a')        target.open('/a')
//
// A path that begins with /slow is held until it is opened; others are answered at once.
import http from 'node:http'

export async function startTarget(t) {
    const counts = new Map()
    const held = new Map()
    const opened = new Set()
    const server = http.createServer((request, response) => {
        const path = request.url
        counts.set(path, (counts.get(path) ?? 0) + 1)
        request.resume()
        const answer = () => response.end('{}')
        if (!path.startsWith('/slow') || opened.has(path)) answer()
        else held.set(path, [...(held.get(path) ?? []), answer])
    })
    server.keepAliveTimeout = 1000
    await new Promise((done) => server.listen(0, '127.0.0.1', 4096, done))
    t.defer(() => {
        server.closeAllConnections()
        server.close()
    })
    return {
        url: (path) => `http://127.0.0.1:${server.address().port}${path}`,
        count: (path) => counts.get(path) ?? 0,
        total: () => [...counts.values()].reduce((a, b) => a + b, 0),
        open(path) {
            opened.add(path)
            for (const answer of held.get(path) ?? []) answer()
            held.delete(path)
        },
    }
}
