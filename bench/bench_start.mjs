// SPDX-License-Identifier: Apache-2.0
//
// bench_start -- the real server is started on a store in which a kill -9 has left a
// million running and a million queued jobs.
//
// Printed: from exec to the first HTTP answer; /healthz and an enqueue, one after the
// other, while the recovery is under way; what its report counts; and, when the
// recovered retries have fallen due, enqueues and how long a fresh job waits for its
// start among them.
//
//   bench_start.mjs [THOUSANDS [SECONDS]]   1000 of each; 20 s after they are due
import { readFileSync } from 'node:fs'
import os from 'node:os'

import { leaveRunning } from '../tests/e2e/lib/crashed.mjs'
import { startServer } from '../tests/e2e/lib/server.mjs'
import { startTarget } from '../tests/e2e/lib/target.mjs'
import { check, test, until } from '../tests/e2e/lib/test.mjs'

const count = Number(process.argv[2] ?? 1000) * 1000
const seconds = Number(process.argv[3] ?? 20)

const now = () => Number(process.hrtime.bigint()) / 1e6
async function timed(list, act) {
    const start = now()
    const result = await act()
    list.push(now() - start)
    return result
}
const at = (list, part) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))] ?? NaN
function print(what, list, target) {
    const figures = `p50 ${at(list, 0.5).toFixed(1)} ms, p99 ${at(list, 0.99).toFixed(1)}, max ${at(list, 1).toFixed(1)} of ${list.length}`
    console.log(`  ${what.padEnd(44)} ${figures}${target ? `   target: p99 ${target} ms` : ''}`)
}
const memory = (pid) => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024

// The first answer, from before the process is made; the port is known beforehand.
async function firstAnswer(server) {
    const start = now()
    const started = server.start()
    for (;;) {
        try {
            const { status } = await server.fetch('GET', '/healthz')
            if (status === 200) break
        } catch {
            await new Promise((next) => setTimeout(next, 1))
        }
    }
    const took = now() - start
    await started
    return took
}

test('bench', async (t) => {
    console.log(`machine: ${os.type()} ${os.machine()}, ${os.cpus().length} cores, load ${os.loadavg()[0].toFixed(1)} at the start`)
    const target = await startTarget(t)
    const server = await startServer(t, { config: '[queue default]\nslots = 10\n', unchecked: true })
    const port = new URL(server.address).port
    await server.ready()
    await server.kill()
    await leaveRunning(server, count, count, target.url('/old'))
    server.options.listen = `127.0.0.1:${port}`
    server.setAddress(`http://127.0.0.1:${port}`)
    const first = await firstAnswer(server)
    console.log(`${count} running and ${count} queued jobs`)
    console.log(`  from exec to the first answer                ${first.toFixed(0)} ms   target: 250 ms`)

    const begun = now()
    const health = []
    const enqueue = []
    let most = 0
    while ((await server.fetch('GET', '/readyz')).status === 503) {
        await timed(health, () => server.fetch('GET', '/healthz'))
        await timed(enqueue, () => server.enqueue('http', { payload: { url: target.url('/fresh') } }))
        most = Math.max(most, memory(server.child.pid))
    }
    const took = (now() - begun) / 1000
    console.log(`  recovery                                     ${took.toFixed(1)} s, ${(count / took).toFixed(0)} jobs/s, memory ${most.toFixed(0)} MiB at most`)
    print('/healthz meanwhile', health, 100)
    print('enqueue meanwhile', enqueue, 100)
    await until('its summary is logged', () => / scheduler_startup_cleanup .*recovery=/.test(server.stderr.slice(server.stderr.lastIndexOf(' listening '))))
    const exact = server.stderr.includes(`running_failed=${count} `) && server.stderr.includes(`retries_created=${count} `)
    console.log(`  report                                       ${exact ? 'exact' : 'NOT EXACT'}`)

    // What was enqueued meanwhile comes first.  The retries fall due a minute after each
    // was made.
    await until('the fresh ones have run', () => target.count('/fresh') >= enqueue.length, 600_000)
    await until('retries run', () => target.count('/old') > 0, 120_000)
    const later = []
    const wait = []
    const end = now() + seconds * 1000
    while (now() < end) {
        const job = await timed(later, () => server.post('/jobs', { kind: 'http', payload: { url: target.url('/later') } }))
        const done = await server.outcome(job.body.id)
        wait.push(Date.parse(done.startedAt) - Date.parse(done.createdAt))
    }
    console.log(`when the retries are due (${target.count('/old')} ran meanwhile)`)
    print('enqueue', later, 100)
    print('from a fresh job to its start', wait)
    check(exact, 'the report must be exact')
})
