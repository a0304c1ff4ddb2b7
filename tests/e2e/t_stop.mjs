// SPDX-License-Identifier: Apache-2.0
//
// Graceful stops: what drains, what is handed over, what is left, and what the next
// start is told.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { startServer } from './lib/server.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

// Leaves a line per execution in FOLDER/log, and runs until FOLDER/go is there.
const waiting = (t, more = '') =>
    `[command wait]
argv = /bin/sh -c '${more} echo run >> ${t.folder}/log; while [ ! -e ${t.folder}/go ]; do sleep 0.05; done'
retry_delays_seconds = 3600
`
const executions = (t) =>
    existsSync(join(t.folder, 'log')) ? readFileSync(join(t.folder, 'log'), 'utf8').split('\n').length - 1 : 0
const isRunning = (t, n = 1) => until('the command runs', () => executions(t) === n)
// How the server says that the last one ended, after its nth start.
const lastStop = (server, n) =>
    until('it has said', () => [...server.stderr.matchAll(/listening .*last_stop=(\w+)/g)][n - 1]?.[1])
const letGo = (t) => writeFileSync(join(t.folder, 'go'), '')

test('commands are left at a stop and adopted by the next start', async (t) => {
    const server = await startServer(t, { config: waiting(t), settings: { shutdown_commands: 'leave' } })
    const id = await server.enqueue('wait')
    await isRunning(t)
    await server.stop()
    has(server.stderr, 'commands_left count=1')
    await server.start()
    equal(await lastStop(server, 2), 'clean')
    await server.ready()
    letGo(t)
    const job = await server.outcome(id)
    equal([job.state, job.attempt, job.retriedBy, executions(t)], ['completed', 1, null, 1])
})

test('commands are ended as interrupted where a stop is to end them', async (t) => {
    const server = await startServer(t, { config: waiting(t), settings: { shutdown_commands: 'stop', shutdown_grace_ms: 0 } })
    const id = await server.enqueue('wait', { maxRetries: 0 })
    await isRunning(t)
    await server.stop()
    letGo(t)
    await server.start()
    const job = (await server.get(`/jobs/${id}`)).body
    equal([job.state, job.error.type, job.retryState], ['failed', 'interrupted', 'retried'])
    const retry = await server.outcome(job.retriedBy)
    equal([retry.state, retry.attempt, retry.retriesLeft, executions(t)], ['completed', 2, 0, 2])
})

test('a request that is under way is waited for', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { settings: { shutdown_grace_ms: 600000 } })
    const id = await server.enqueue('http', { payload: { url: target.url('/slow') } })
    await until('it is called', () => target.count('/slow') === 1)
    server.child.kill('SIGTERM')
    await until('it is stopping', async () => (await server.fetch('GET', '/readyz')).body.status === 'stopping')
    equal((await server.fetch('GET', '/healthz')).status, 200)
    const later = await server.enqueue('http', { payload: { url: target.url('/later') } })
    target.open('/slow')
    equal((await server.exited).code, 0)
    equal(target.count('/later'), 0)
    await server.start()
    equal((await server.outcome(id)).state, 'completed')
    equal((await server.outcome(later)).state, 'completed')
    equal([target.count('/slow'), target.count('/later')], [1, 1])
})

test('a request that takes longer than the grace is interrupted and costs no attempt', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { settings: { shutdown_grace_ms: 300 } })
    const id = await server.enqueue('http', { payload: { url: target.url('/slow') }, maxRetries: 0 })
    await until('it is called', () => target.count('/slow') === 1)
    await server.stop()
    target.open('/slow')
    await server.start()
    const job = (await server.get(`/jobs/${id}`)).body
    equal([job.state, job.error.type, job.retryState], ['failed', 'interrupted', 'retried'])
    check(job.nextRetryAt <= job.finishedAt, 'the retry is due at once')
    const retry = await server.outcome(job.retriedBy)
    equal([retry.state, retry.retriesLeft, target.count('/slow')], ['completed', 0, 2])
})

test('a second signal ends the waiting, and still nothing is used up', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { settings: { shutdown_grace_ms: 600000 } })
    const id = await server.enqueue('http', { payload: { url: target.url('/slow') }, maxRetries: 0 })
    await until('it is called', () => target.count('/slow') === 1)
    server.child.kill('SIGTERM')
    await until('it is stopping', async () => (await server.fetch('GET', '/readyz')).status === 503)
    server.child.kill('SIGINT')
    equal((await server.exited).code, 0)
    has(server.stderr, 'stopping_at_once signal=SIGINT')
    target.open('/slow')
    await server.start()
    equal(await lastStop(server, 2), 'clean')
    const job = (await server.get(`/jobs/${id}`)).body
    equal([job.state, job.error.type, job.retryState], ['failed', 'interrupted', 'retried'])
    equal((await server.outcome(job.retriedBy)).state, 'completed')
})

test('a command that does not end when it is asked is never run a second time beside itself', async (t) => {
    const server = await startServer(t, {
        config: waiting(t, 'trap "" TERM;') + 'term_grace_ms = 600000\n',
        settings: { shutdown_commands: 'stop', shutdown_grace_ms: 0 },
    })
    const id = await server.enqueue('wait')
    await isRunning(t)
    server.child.kill('SIGTERM')
    await until('it was asked', () => server.stderr.includes('handing_over'))
    server.child.kill('SIGTERM')
    equal((await server.exited).code, 0)
    await server.start()
    await server.ready()
    equal((await server.get(`/jobs/${id}`)).body.state, 'running')
    letGo(t)
    const job = await server.outcome(id)
    equal([job.state, job.retriedBy, executions(t)], ['completed', null, 1])
})

test('a stop right after a start of much work loses nothing and runs nothing twice', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { config: '[queue default]\nslots = 50\n', settings: { shutdown_grace_ms: 0 } })
    const jobs = Array.from({ length: 200 }, (_, i) => ({ kind: 'http', payload: { url: target.url(`/${i}`) }, maxRetries: 0 }))
    const { ids } = (await server.post('/jobs/batch', { jobs })).body
    for (let i = 0; i < 3; i++) await server.restart()
    for (const id of ids) {
        let job = await server.outcome(id)
        while (job.retriedBy) {
            equal(job.error.type, 'interrupted')
            job = await server.outcome(job.retriedBy)
        }
        equal([job.state, job.retriesLeft], ['completed', 0])
    }
})

test('a crash is told from a stop at the next start', async (t) => {
    const server = await startServer(t)
    equal(await lastStop(server, 1), 'clean')
    await server.restart()
    equal(await lastStop(server, 2), 'clean')
    await server.kill()
    await server.start()
    equal(await lastStop(server, 3), 'unclean')
    await server.restart()
    equal(await lastStop(server, 4), 'clean')
})
