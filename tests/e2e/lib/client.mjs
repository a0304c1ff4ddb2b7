// SPDX-License-Identifier: Apache-2.0
//
// client.mjs -- the HTTP API as a test uses it.
//
//   get, post, patch, del    below /api/v1; the answer must be a success
//   refused                  the same for an answer that must be a problem
//   fetch                    any path, any answer: { status, headers, text, body }
//
// Every answer is held to the description of the API.
import http from 'node:http'

import { hold } from './openapi.mjs'
import { check } from './test.mjs'

export class Client {
    constructor() {
        this.token = null
        this.headers = {}
    }

    // "http://127.0.0.1:7420" or "unix:/path".
    setAddress(address) {
        this.closeConnections()
        this.address = address
        this.agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
        const url = address.startsWith('unix:') ? null : new URL(address)
        this.target = url
            ? { host: url.hostname, port: Number(url.port) }
            : { socketPath: address.slice('unix:'.length), host: 'localhost' }
    }

    closeConnections() {
        this.agent?.destroy()
    }

    // `signal` aborts: the client hangs up.
    fetch(method, path, body, { headers = {}, signal } = {}) {
        const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
        const all = { ...this.headers, ...headers }
        if (text !== undefined) all['content-length'] = Buffer.byteLength(text)
        if (this.token) all.authorization ??= `Bearer ${this.token}`
        return new Promise((done, failed) => {
            const request = http.request(
                { ...this.target, agent: this.agent, method, path, headers: all, signal },
                (answer) => {
                    let received = ''
                    answer.setEncoding('utf8')
                    answer.on('data', (d) => (received += d))
                    answer.on('error', failed)
                    answer.on('end', () => {
                        const json = /json/.test(answer.headers['content-type'] ?? '')
                        const result = {
                            status: answer.statusCode,
                            headers: answer.headers,
                            text: received,
                            body: json && received ? JSON.parse(received) : null,
                        }
                        try {
                            hold(method, path, text, result)
                            done(result)
                        } catch (wrong) {
                            failed(wrong)
                        }
                    })
                },
            )
            request.on('error', failed)
            request.end(text)
        })
    }

    async #succeed(method, path, body, options) {
        const answer = await this.fetch(method, `/api/v1${path}`, body, options)
        check(answer.status < 300, `${method} ${path} was answered ${answer.status}: ${answer.text}`)
        return answer
    }
    get(path, options) {
        return this.#succeed('GET', path, undefined, options)
    }
    post(path, body = {}, options) {
        return this.#succeed('POST', path, body, options)
    }
    patch(path, body, options) {
        return this.#succeed('PATCH', path, body, options)
    }
    del(path, options) {
        return this.#succeed('DELETE', path, undefined, options)
    }

    // The problem that a request is answered with: its status is checked, and that it
    // says something.
    async refused(status, method, path, body, options) {
        const answer = await this.fetch(method, `/api/v1${path}`, body, options)
        check(answer.status === status, `${method} ${path}: ${answer.status}, not ${status}: ${answer.text}`)
        check(answer.headers['content-type'] === 'application/problem+json', answer.headers['content-type'])
        check(answer.body.status === status && answer.body.type && answer.body.title, answer.text)
        check(answer.body.detail?.length > 10, `no sentence: ${answer.text}`)
        return answer.body
    }

    // A new job's id.
    async enqueue(kind, more = {}) {
        return (await this.post('/jobs', { kind, ...more })).body.id
    }
}
