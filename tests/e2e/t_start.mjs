// SPDX-License-Identifier: Apache-2.0
//
// Starts: who is refused, who is answered first, what a crash leaves and how gently
// work begins again; and what systemd is told.
import { existsSync } from 'node:fs'
import { join } from 'node:path'

import { onPostgres, run, startServer } from './lib/server.mjs'
import { startSystemd } from './lib/systemd.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

// So many jobs that are under way when the server is killed.
async function crashWith(t, count, options = {}, more = {}, answered = true) {
    const target = await startTarget(t)
    const server = await startServer(t, { config: `[queue default]\nslots = ${count}\n`, ...options })
    const jobs = Array.from({ length: count }, (_, i) => ({
        kind: 'http', payload: { url: target.url(`/slow/${i}`) }, retryDelaysSeconds: [0], ...more,
    }))
    const { ids } = (await server.post('/jobs/batch', { jobs })).body
    await until('all of them run', () => target.total() === count)
    await server.kill()
    for (let i = 0; answered && i < count; i++) target.open(`/slow/${i}`)
    return { target, server, ids }
}

// The numbers of the nth start's summary.
const summary = (server, n = 2) =>
    until('the recovery is through', () => {
        const line = [...server.stderr.matchAll(/^(\S+) info scheduler_startup_cleanup (.*)$/gm)][n - 1]
        return line && { at: Date.parse(line[1]), ...Object.fromEntries(line[2].split(' ').map((f) => f.split('='))) }
    })

test('a second scheduler on the same store or state directory is refused with a sentence', async (t) => {
    const server = await startServer(t)
    const start = (...args) => run(['serve', '--listen', '127.0.0.1:0', '--set', 'worker_listen=off', ...args])
    const state = join(t.folder, 'another.d')
    if (!onPostgres) {
        const second = await start('--db', server.store, '--set', `state_dir=${state}`)
        check(second.code !== 0)
        has(second.stderr, `another scheduler has ${server.store} open: process ${server.child.pid} on `)
    }
    const third = await start('--db', onPostgres ? server.store : join(t.folder, 'b.db'), '--set', `state_dir=${server.stateDir}`)
    check(third.code !== 0)
    has(third.stderr, `The state directory ${server.stateDir} is in use by process ${server.child.pid} on `)
    equal((await server.fetch('GET', '/healthz')).status, 200)
})

test('an open address without a token is refused before anything is made', async (t) => {
    const db = join(t.folder, 'new.db')
    const args = ['serve', '--db', db, '--set', 'worker_listen=off', '--listen']
    const open = await run([...args, '0.0.0.0:0'])
    check(open.code !== 0)
    has(open.stderr, 'listen = 0.0.0.0:0 can be reached from other machines; set admin_token')
    check(!existsSync(db) && !existsSync(`${db}.d`), 'nothing was made')
})

test('an open address is fine with a token, and then the token is needed', async (t) => {
    const token = 'a-token-of-this-test'
    const server = await startServer(t, { listen: '0.0.0.0:0', env: { HOLDFAST_ADMIN_TOKEN: token } })
    server.setAddress(server.address.replace('0.0.0.0', '127.0.0.1'))
    equal((await server.fetch('GET', '/api/v1/jobs/1')).status, 401)
    server.token = token
    equal((await server.fetch('GET', '/api/v1/jobs/1')).status, 404)
})

test('an address that is taken is a sentence and leaves a clean store', async (t) => {
    const server = await startServer(t)
    const db = join(t.folder, 'other.db')
    const args = ['serve', '--db', db, '--set', 'worker_listen=off', '--listen']
    const second = await run([...args, new URL(server.address).host])
    check(second.code !== 0)
    has(second.stderr, 'another program does')
    const third = await run(['check', '--db', db])
    equal(third.code, 0, third.stdout + third.stderr)
    check(!third.stdout.includes('awaiting recovery'), third.stdout)
})

test('a socket file that a crash left is replaced', async (t) => {
    const server = await startServer(t, { listen: `unix:${join(t.folder, 's')}` })
    await server.kill()
    await server.start()
    equal((await server.fetch('GET', '/healthz')).status, 200)
})

test('231 stale jobs are failed with a sentence and retried, and the API was there before', async (t) => {
    const { server, target, ids } = await crashWith(t, 231, { settings: { startup_stagger_seconds: 0 } })
    await server.start()
    const id = await server.enqueue('http', { payload: { url: target.url('/fresh') } })
    const s = await summary(server)
    equal([s.running_failed, s.retries_created, s.adopted, s.unresolved], ['231', '231', '0', '0'])
    check(server.stderr.lastIndexOf(' listening ') < server.stderr.lastIndexOf(' scheduler_startup_cleanup '))
    equal((await server.outcome(id)).state, 'completed')
    for (const [i, old] of ids.entries()) {
        const job = (await server.get(`/jobs/${old}`)).body
        equal([job.state, job.error.type, job.retryState], ['failed', 'crash', 'retried'])
        has(job.error.message, 'Job interrupted by service restart (crash recovery): it had been running for ')
        equal(Object.keys(job.error.details).sort(), ['cleanupReason', 'cleanupTimestamp', 'originalErrorType', 'previousOwner', 'previousStatus', 'runningDuration'])
        equal((await server.outcome(job.retriedBy)).state, 'completed')
        equal(target.count(`/slow/${i}`), 2)
    }
    await server.restart()
    equal((await summary(server, 3)).running_failed, '0')
})

test('after a crash workers start one after another', async (t) => {
    const { server, target, ids } = await crashWith(t, 8, { settings: { startup_stagger_seconds: 0.3 } }, {}, false)
    await server.start()
    const { at } = await summary(server)
    // Recovered work has half of the workers that have started, and is held by what it
    // calls: the second one cannot begin before there are four.
    await until('two of the retries run', () => target.total() >= 8 + 2)
    const starts = []
    for (const id of ids) {
        const retry = (await server.get(`/jobs/${id}`)).body.retriedBy
        const { startedAt } = (await server.get(`/jobs/${retry}`)).body
        if (startedAt) starts.push(Date.parse(startedAt))
    }
    starts.sort((a, b) => a - b)
    check(starts[1] >= at + 3 * 300 - 1, `the second retry began ${starts[1] - at} ms after the recovery`)
})

for (const [throttle, crash, held] of [
    ['auto', true, true],
    ['auto', false, false],
    ['never', true, false],
    ['always', false, true],
])
    test(`startup_throttle ${throttle} after a ${crash ? 'crash' : 'stop'} ${held ? 'holds back old work, not fresh' : 'holds back nothing'}`, async (t) => {
        const target = await startTarget(t)
        const server = await startServer(t, {
            config: '[queue default]\nslots = 2\n',
            settings: { startup_throttle: throttle, startup_burst_limit: 1, startup_stagger_seconds: 60, startup_window_seconds: 3600, shutdown_grace_ms: 0 },
        })
        const http = (path) => ({ kind: 'http', payload: { url: target.url(path) }, maxRetries: 0 })
        if (throttle === 'always') {
            // Its first start is throttled as well: there is a worker, for what is fresh.
            await server.post('/queues/default/pause')
        } else {
            await server.post('/jobs', http('/slow'))
            await until('it runs', () => target.count('/slow') === 1)
            await server.post('/queues/default/pause')
        }
        const old = []
        for (let i = 0; i < 3; i++) old.push((await server.post('/jobs', http(`/old${i}`))).body.id)
        await (crash ? server.kill() : server.stop())
        target.open('/slow')
        await server.start()
        await server.ready()
        await server.post('/queues/default/resume')
        if (!held) {
            for (const id of old) equal((await server.outcome(id)).state, 'completed')
            return
        }
        await until('one of the old ones runs', () => target.count('/old0') === 1)
        for (let i = 0; i < 3; i++) {
            const fresh = (await server.post('/jobs', http(`/fresh${i}`))).body.id
            equal((await server.outcome(fresh)).state, 'completed')
        }
        equal([target.count('/old1'), target.count('/old2')], [0, 0])
    })

test('recovery_on_startup = false leaves what was running to the sweep', async (t) => {
    const { server, ids, target } = await crashWith(t, 3, { settings: { recovery_on_startup: false } })
    await server.start()
    await server.ready()
    const id = await server.enqueue('http', { payload: { url: target.url('/fresh') } })
    equal((await server.outcome(id)).state, 'completed')
    for (const old of ids) equal((await server.get(`/jobs/${old}`)).body.state, 'running')
    server.options.settings = {}
    await server.restart()
    equal((await summary(server, 3)).running_failed, '3')
})

test('recovery_action = fail leaves the decision to a person', async (t) => {
    const { server, ids } = await crashWith(t, 3, { settings: { recovery_action: 'fail' } })
    await server.start()
    await server.ready()
    for (const id of ids) {
        const job = (await server.get(`/jobs/${id}`)).body
        equal([job.state, job.error.type, job.retryState, job.retryReason], ['failed', 'crash', 'final', 'crash_policy'])
    }
    const retry = (await server.post(`/jobs/${ids[0]}/retry`)).body
    equal((await server.outcome(retry.id)).state, 'completed')
})

test('systemd is told: listening, ready, alive, stopping', async (t) => {
    const systemd = await startSystemd(t, 200)
    const server = await startServer(t, { env: systemd.env })
    await systemd.hears('READY=1')
    await systemd.hears('STATUS=Ready')
    await systemd.hears('WATCHDOG=1')
    await server.stop()
    await systemd.hears('STOPPING=1')
})
