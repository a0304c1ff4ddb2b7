// SPDX-License-Identifier: Apache-2.0
//
// Endpoints over kill -9: each run is protected for its own time, whoever dies, and no
// target is called a second time while it may still be at work.
import { startReceiver } from './lib/receiver.mjs'
import { startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const endpoints = '/projects/default/endpoints'
const make = async (server, body) => (await server.post(endpoints, body)).body
const never = new Promise(() => {})

const failed = (server, id) =>
    until(`job ${id} has failed`, async () => {
        const { body } = await server.get(`/jobs/${id}`)
        return body.state === 'failed' && body
    })

test('two endpoints of one claim are protected each for its own time, also over kill -9', async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t, () => never)
    await server.post('/queues/q/pause')
    const brief = await make(server, { name: 'brief', url: receiver.url('/brief'), queue: 'q', maxExecutionTimeMs: 1500, maxRetries: 0 })
    const long = await make(server, { name: 'long', url: receiver.url('/long'), queue: 'q', maxExecutionTimeMs: 600000, retryDelaysSeconds: [1] })
    const [a, b] = await Promise.all([brief, long].map(async (e) => (await server.post(`${endpoints}/${e.id}/run`)).body.id))
    await server.post('/queues/q/resume')
    const over = await failed(server, a)
    equal(over.error.type, 'timeout')
    check(Date.parse(over.finishedAt) - Date.parse(over.startedAt) >= 1490, 'it had its time')
    const running = (await server.get(`/jobs/${b}`)).body
    equal([running.state, receiver.got('/long').length, receiver.got('/brief').length], ['running', 1, 1])
    has(server.stderr, `lock_expired endpoint=${brief.id} job=${a}`)
    // by hand, too: there is one under way
    const again = await server.post(`${endpoints}/${long.id}/run`)
    equal([again.status, again.body.id], [200, b])

    await server.kill()
    await server.start()
    const crashed = await failed(server, b)
    equal(crashed.error.type, 'crash')
    has(server.stderr, `lock_expired endpoint=${long.id} job=${b}`)
    const retry = (await server.get(`/jobs/${crashed.retriedBy}`)).body
    equal([retry.state, retry.payload], ['scheduled', { endpointId: long.id }])
    equal(Date.parse(retry.runAt) - Date.parse(crashed.startedAt), 600000)
    const shown = (await server.get(`${endpoints}/${long.id}`)).body
    equal([shown.failuresInRow, shown.nextTryAt], [1, retry.runAt])
    equal((await server.post(`${endpoints}/${long.id}/run`)).body.id, retry.id)
    equal(receiver.got('/long').length, 1)
})

test('a target is never called while it may be at work', async (t) => {
    const server = await startServer(t)
    const work = 700 // ms, also when nobody waits for the answer any more
    let busyUntil = 0
    const wrong = []
    const receiver = await startReceiver(t, async () => {
        const now = Date.now()
        if (now < busyUntil) wrong.push(`called ${busyUntil - now} ms too early`)
        busyUntil = now + work
        await new Promise((next) => setTimeout(next, work))
        return {}
    })
    const calls = () => receiver.got('/a').length
    const e = await make(server, { name: 'e', url: receiver.url('/a'), everyMs: 1000, maxExecutionTimeMs: 1500, retryDelaysSeconds: [0], maxRetries: 20 })
    for (let round = 0; round < 4; round++) {
        const before = calls()
        await until('it is called again', () => calls() > before)
        await server.kill() // in the middle of its work
        await server.start()
    }
    const before = calls()
    await until('it is called again', () => calls() > before + 1)
    equal(wrong, [])
    const runs = (await server.get(`${endpoints}/${e.id}/runs?limit=100`)).body.items
    check(runs.filter((r) => r.error?.type === 'crash').length >= 4, 'four were killed')
    const { runCount, failureCount } = (await server.get(`${endpoints}/${e.id}`)).body
    const ended = (state) => runs.filter((r) => r.state === state && r.finishedAt).length
    check(runCount >= ended('completed') + ended('failed') && failureCount >= 4, `${failureCount} of ${runCount}`)
})
