// SPDX-License-Identifier: Apache-2.0
//
// The store goes away under a server, hangs, and comes back: what load balancers,
// Prometheus and systemd are told meanwhile.
import { execFileSync, spawn } from 'node:child_process'

import { readMetrics } from './lib/metrics.mjs'
import { onPostgres, startServer } from './lib/server.mjs'
import { startSystemd } from './lib/systemd.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

// Statements in a session that stays, until it is let go.
async function hold(t, [program, ...args], text) {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    let out = ''
    child.stdout.on('data', (d) => (out += d))
    t.defer(() => child.kill('SIGKILL'))
    child.stdin.write(`${text}\nSELECT 'held';\n`)
    await until('it is held', () => out.includes('held'))
    return () => child.stdin.end()
}

// Nobody can write any more, and whoever tries waits.
const lock = (t, server) =>
    onPostgres
        ? hold(t, ['psql', '-qAt', server.store], 'BEGIN; LOCK TABLE holdfast.owners;')
        : hold(t, ['sqlite3', server.store], 'BEGIN IMMEDIATE;')

// Its connections are cut, and none is let in.
function cut(server) {
    const name = server.store.match(/hf_e2e_\w+/)[0]
    const admin = (text) => execFileSync('psql', ['-qAtc', text, process.env.HF_TEST_DB])
    admin(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`)
    admin(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '${name}'`)
    return () => admin(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`)
}

// An answer that is waited for at the end of a test, which may not come so far.
function later(answer) {
    answer.catch(() => {})
    return answer
}

const waiting = "[command wait]\nargv = /bin/sleep 600\n"

test('readyz is 503 with a sentence while the store is away, and healthz is not', async (t) => {
    const server = await startServer(t, { config: waiting, settings: { lease_ms: 3000 } })
    await server.ready()
    const ready = async () => (await server.fetch('GET', '/readyz')).body
    const gauges = async () => {
        const { values } = readMetrics((await server.fetch('GET', '/metrics')).text)
        return [values.get('holdfast_ready'), values.get('holdfast_store_writable')]
    }
    equal([(await ready()).reason, await gauges()], [null, [1, 1]])
    let id = null
    if (!onPostgres) id = await server.enqueue('wait') // its beat must be written
    const restore = onPostgres ? cut(server) : await lock(t, server)
    await until('readyz says so', async () => (await server.fetch('GET', '/readyz')).status === 503)
    const away = await ready()
    equal([away.ready, away.status], [false, 'unavailable'])
    has(away.reason, 'Changes are refused until the store takes them again')
    if (onPostgres) has(away.reason, 'The database cannot be reached.')
    equal((await server.fetch('GET', '/healthz')).status, 200)
    equal(await gauges(), [0, 0])
    restore()
    await until('readyz is 200 again', async () => (await server.fetch('GET', '/readyz')).status === 200)
    equal([(await ready()).status, await gauges()], ['ready', [1, 1]])
    if (id) await server.post(`/jobs/${id}/cancel`)
})

test('a committer that has nothing to do is alive for systemd', async (t) => {
    const systemd = await startSystemd(t, 1000)
    const server = await startServer(t, { env: systemd.env, settings: { poll_interval_ms: 60000, lease_ms: 600000 } })
    await server.ready()
    await systemd.isAlive(12)
    check(!server.stderr.includes('committer_stuck'), server.stderr)
})

if (onPostgres)
    test('a committer that waits for its database is alive for systemd', async (t) => {
        const systemd = await startSystemd(t, 1000)
        const server = await startServer(t, { env: systemd.env })
        await server.ready()
        const restore = cut(server)
        const refused = later(server.refused(503, 'POST', '/jobs', { kind: 'a' })) // in vain
        await systemd.hears('STATUS=Not ready: The database cannot be reached')
        await systemd.isAlive(12)
        has((await refused).detail, 'Nothing was changed.')
        check(!server.stderr.includes('committer_stuck'), server.stderr)
        restore()
        await server.ready()
        await systemd.isAlive(1)
    })

test('a committer that is stuck is not alive for systemd, whatever the loop answers', async (t) => {
    const systemd = await startSystemd(t, 2000)
    const server = await startServer(t, { env: systemd.env })
    await server.ready()
    await systemd.isAlive(1)
    const release = await lock(t, server)
    const made = later(server.post('/jobs', { kind: 'a' }))
    await systemd.givesUp()
    equal((await server.fetch('GET', '/healthz')).status, 200)
    has(server.stderr, ' error committer_stuck for_ms=')
    release()
    await systemd.isAlive(4)
    equal((await made).status, 201)
})
