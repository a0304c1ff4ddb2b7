// SPDX-License-Identifier: Apache-2.0
//
// Commands outlive the scheduler: what a kill -9 of the server leaves of them, and what
// the next start makes of it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { sql, startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

// Runs until the file FOLDER/go-on.ID is there, with output before and after.
const waiting = (t) =>
    `[command wait]
argv = /bin/sh -c 'echo before; id=$(cat); touch ${t.folder}/runs-$id; while [ ! -e ${t.folder}/go-$id ]; do sleep 0.05; done; echo after; echo "{\\"id\\":$id}"'
max_retries = 1
retry_delays_seconds = 0
[queue default]
slots = 300
`
const letGo = (t, i) => writeFileSync(join(t.folder, `go-${i}`), '')
const runs = (t, i) => until(`command ${i} runs`, () => existsSync(join(t.folder, `runs-${i}`)))

function supervisors(server) {
    return readdirSync('/proc').filter((pid) => {
        if (!/^\d+$/.test(pid)) return false
        try {
            const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
            return words[1] === 'supervise' && words[2].startsWith(server.stateDir)
        } catch {
            return false
        }
    })
}

const records = (server) => {
    const folder = join(server.stateDir, 'runs')
    return existsSync(folder) ? readdirSync(folder) : []
}

test('a command that lives on is adopted and finishes under the new process', async (t) => {
    const server = await startServer(t, { config: waiting(t) })
    const id = await server.enqueue('wait', { payload: 1 })
    await runs(t, 1)
    const owner = () => sql(server.store, `SELECT owner_id FROM runs WHERE job_id = ${id}`)
    const before = owner()
    await server.kill()
    await server.start()
    await server.ready()
    equal((await server.get(`/jobs/${id}`)).body.state, 'running')
    check(owner() !== before, 'the run has a new owner')
    letGo(t, 1)
    const job = await server.outcome(id)
    equal([job.state, job.result, job.attempt, job.retriedBy], ['completed', { id: 1 }, 1, null])
    await until('its record is deleted', () => records(server).length === 0)
    has(server.stderr, 'adopted=1')
})

test('a command that ended while no scheduler was there keeps its real outcome', async (t) => {
    const server = await startServer(t, {
        config: `${waiting(t)}
[command fail]
argv = /bin/sh -c 'touch ${t.folder}/runs-fail; while [ ! -e ${t.folder}/go-fail ]; do sleep 0.05; done; echo why >&2; exit 7'
max_retries = 0
`,
    })
    const good = await server.enqueue('wait', { payload: 1 })
    const bad = await server.enqueue('fail')
    await runs(t, 1)
    await runs(t, 'fail')
    await server.kill()
    letGo(t, 1)
    letGo(t, 'fail')
    await until('both have ended', () => supervisors(server).length === 0)
    await server.start()
    const job = await server.outcome(good)
    equal([job.state, job.result, job.retriedBy], ['completed', { id: 1 }, null])
    const failed = await server.outcome(bad)
    equal([failed.state, failed.error.type, failed.error.details.exitCode], ['failed', 'other', 7])
    await until('the records are deleted', () => records(server).length === 0)
})

test('a command that was killed with its supervisor is failed as crashed and retried', async (t) => {
    const server = await startServer(t, { config: waiting(t) })
    const id = await server.enqueue('wait', { payload: 1 })
    await runs(t, 1)
    await server.kill()
    for (const pid of supervisors(server)) process.kill(Number(pid), 'SIGKILL')
    letGo(t, 1)
    await server.start()
    const job = await server.outcome(id)
    equal([job.state, job.error.type, job.retryState], ['failed', 'crash', 'retried'])
    has(job.error.message, 'Job interrupted by service restart (crash recovery): it had been running for ')
    const retry = await server.outcome(job.retriedBy)
    equal([retry.state, retry.attempt, retry.result], ['completed', 2, { id: 1 }])
    await until('the records are deleted', () => records(server).length === 0)
})

test('two hundred commands at once are adopted, each ends once', async (t) => {
    const server = await startServer(t, { config: waiting(t) })
    const jobs = Array.from({ length: 200 }, (_, i) => ({ kind: 'wait', payload: i }))
    const { ids } = (await server.post('/jobs/batch', { jobs })).body
    for (let i = 0; i < 200; i++) await runs(t, i)
    await server.kill()
    for (let i = 0; i < 100; i++) letGo(t, i) // these end meanwhile
    await until('half of them have ended', () => supervisors(server).length <= 100)
    await server.start()
    await server.ready()
    for (let i = 100; i < 200; i++) letGo(t, i)
    for (const [i, id] of ids.entries()) {
        const job = await server.outcome(id)
        equal([job.state, job.result, job.attempt, job.retriedBy], ['completed', { id: i }, 1, null])
    }
    has(server.stderr, 'adopted=200')
    has(server.stderr, 'running_failed=0')
    await until('the records are deleted', () => records(server).length === 0)
})

test('a deadline is kept while no scheduler is there', async (t) => {
    const server = await startServer(t, { config: waiting(t) })
    const id = await server.enqueue('wait', { payload: 1, maxExecutionTimeMs: 2000, maxRetries: 0 })
    await runs(t, 1)
    await server.kill()
    await until('its supervisor has ended it', () => supervisors(server).length === 0)
    await server.start()
    const job = await server.outcome(id)
    equal([job.state, job.error.type, job.retryReason], ['failed', 'timeout', 'exhausted'])
})

test('a cancel that was committed and not acted upon before the crash reaches the adopted command', async (t) => {
    const server = await startServer(t, { config: waiting(t) })
    const id = await server.enqueue('wait', { payload: 1 })
    await runs(t, 1)
    await server.kill()
    sql(server.store, `UPDATE jobs SET state = 4, cancel_at = ${Date.now() * 1000}, cancel_reason = 'enough' WHERE id = ${id};
        UPDATE counters SET running = running - 1, cancelling = cancelling + 1 WHERE running = 1`)
    await server.start()
    const job = await server.outcome(id)
    equal([job.state, job.error.type, job.error.message], ['cancelled', 'cancelled', 'enough'])
})

test('the output of an adopted command is whole', async (t) => {
    const server = await startServer(t, { config: waiting(t) })
    const id = await server.enqueue('wait', { payload: 1 })
    await runs(t, 1)
    await server.kill()
    await server.start()
    letGo(t, 1)
    await server.outcome(id)
    const output = JSON.parse(sql(server.store, `SELECT output FROM outputs WHERE job_id = ${id}`))
    equal([output.stdout.head, output.stdout.complete], ['before\nafter\n{"id":1}\n', true])
})

test('the server takes all open files it may have, and a command gets as many as the server was given', async (t) => {
    const server = await startServer(t, {
        config: `[command files]\nargv = /bin/sh -c 'ulimit -S -n'\n`,
        under: ['/bin/sh', '-c', 'ulimit -S -n 300 && exec "$0" "$@"'],
    })
    const [, soft, hard] = readFileSync(`/proc/${server.child.pid}/limits`, 'utf8').match(/Max open files\s+(\d+)\s+(\d+)/)
    equal(soft, hard)
    equal((await server.outcome(await server.enqueue('files'))).result, 300)
})

test('concurrency of a command is the slots of its queue', async (t) => {
    const config = '[command nap]\nargv = /bin/sleep 600\nqueue = naps\nconcurrency = 2\n'
    const server = await startServer(t, { config, settings: { shutdown_commands: 'stop' } })
    const ids = []
    for (let i = 0; i < 3; i++) ids.push(await server.enqueue('nap'))
    const states = async () =>
        (await Promise.all(ids.map(async (id) => (await server.get(`/jobs/${id}`)).body.state))).join()
    await until('two of three run', async () => (await states()) === 'running,running,queued')
    equal((await server.get('/queues/naps')).body.slots, 2)
    await server.post(`/jobs/${ids[0]}/cancel`)
    await until('the third follows', async () => (await states()) === 'cancelled,running,running')
})
