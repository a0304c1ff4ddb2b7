// SPDX-License-Identifier: Apache-2.0
//
// stream.mjs -- server-sent events as a client reads them.
//
//   const stream = await openStream(t, server, '?type=job.*')
//   await stream.until((e) => e.type === 'job.cancelled')
//   stream.events        // [{ id, type, data }], in the order received
import http from 'node:http'

import { eventFault } from './openapi.mjs'
import { check, until } from './test.mjs'

class Stream {
    events = []
    comments = []
    lastId = null
    ended = null
    fault = null // the first event that is not as described
    #rest = ''

    read(text) {
        this.#rest += text
        for (let end; (end = this.#rest.indexOf('\n\n')) >= 0; this.#rest = this.#rest.slice(end + 2))
            this.#take(this.#rest.slice(0, end).split('\n'))
    }

    #take(lines) {
        const event = { id: null, type: null, data: null }
        for (const line of lines) {
            const [, name, value] = line.match(/^(\w*): ?(.*)$/) ?? check(false, `no such line: ${line}`)
            if (name === '') this.comments.push(value)
            else if (name === 'event') event.type = value
            else if (name === 'data') event.data = JSON.parse(value)
            else if (name === 'id') event.id = this.lastId = value
            else check(name === 'retry', line)
        }
        if (event.data) this.events.push(event)
        if (event.data && event.type !== 'reset') this.fault ??= eventFault(event.data)
    }

    // The first event that fits, waited for.
    until(fits, what = 'an event comes') {
        return until(what, () => this.events.find(fits))
    }
    types() {
        return this.events.map((e) => e.type)
    }
    // Stops reading, and goes on.
    pause() {
        this.answer.pause()
    }
    resume() {
        this.answer.resume()
    }
    close() {
        this.request.destroy()
    }
}

export function openStream(t, server, query = '', headers = {}) {
    const stream = new Stream()
    return new Promise((done, failed) => {
        stream.request = http.get(
            { ...server.target, agent: false, path: `/api/v1/events${query}`, headers },
            (answer) => {
                check(answer.statusCode === 200, `the stream was answered ${answer.statusCode}`)
                check(answer.headers['content-type'] === 'text/event-stream')
                stream.answer = answer
                answer.setEncoding('utf8')
                answer.on('data', (d) => stream.read(d))
                answer.on('end', () => (stream.ended = 'complete'))
                answer.on('error', () => (stream.ended = 'cut'))
                done(stream)
            },
        )
        stream.request.on('error', (e) => (stream.answer ? (stream.ended ??= 'cut') : failed(e)))
        t.defer(() => {
            stream.close()
            check(!stream.fault, `not as src/api/openapi.json says: ${stream.fault}`)
        })
    })
}
