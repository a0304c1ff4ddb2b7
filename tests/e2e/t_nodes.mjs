// SPDX-License-Identifier: Apache-2.0
// test: once
//
// Two nodes on one PostgreSQL: what one leaves when it is killed is resolved by the
// other, commands only when they have ended, and nothing runs twice at once.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { makeStore, startServer } from './lib/server.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

// A line per execution; one that begins while the last one lives says so.
const command = (t) => `[command wait]
argv = /bin/sh -c 'if [ -e ${t.folder}/pid ] && kill -0 $(cat ${t.folder}/pid) 2>/dev/null; then echo beside >> ${t.folder}/log; fi; echo $$ > ${t.folder}/pid; echo run >> ${t.folder}/log; while [ ! -e ${t.folder}/go ]; do sleep 0.05; done'
term_grace_ms = 100
retry_delays_seconds = 0
`
const lines = (t) => (existsSync(join(t.folder, 'log')) ? readFileSync(join(t.folder, 'log'), 'utf8').trim().split('\n') : [])

async function two(t, lease_ms, second = {}) {
    const store = makeStore(t)
    const settings = { lease_ms }
    const a = await startServer(t, { store, settings: { ...settings, node: 'a' }, config: command(t), unchecked: true })
    const b = await startServer(t, { store, settings: { ...settings, node: 'b' }, config: command(t), ...second })
    return [a, b]
}

test('requests of a killed node are failed and retried by the other', async (t) => {
    const target = await startTarget(t)
    const [a, b] = await two(t, 2000)
    await b.post('/queues/default/pause') // so that a takes them
    const http = (i) => ({ kind: 'http', queue: `q${i}`, payload: { url: target.url(`/slow/${i}`) }, retryDelaysSeconds: [0] })
    const ids = []
    for (let i = 0; i < 10; i++) ids.push((await a.post('/jobs', http(i))).body.id)
    await until('all run', () => target.total() === 10)
    await a.kill()
    for (let i = 0; i < 10; i++) target.open(`/slow/${i}`)
    for (const id of ids) {
        let job = await b.outcome(id)
        if (job.state === 'failed') {
            equal(job.error.type, 'crash')
            job = await b.outcome(job.retriedBy)
        }
        equal(job.state, 'completed')
    }
    check(target.total() <= 20, `${target.total()} requests for ten jobs with at most one retry each`)
    has(b.stderr, 'owner_died')
})

test('a command of a killed node has ended before the other begins its retry', async (t) => {
    const [a, b] = await two(t, 3000, { config: '' }) // b does not know the kind yet
    const id = await a.enqueue('wait')
    await until('it runs', () => lines(t).length === 1)
    b.options.config = command(t)
    b.arguments()
    b.child.kill('SIGHUP')
    await until('b knows the kind', () => b.stderr.includes(' reloaded'))
    await a.kill()
    const job = await b.outcome(id)
    equal([job.state, job.error.type, job.retryState], ['failed', 'crash', 'retried'])
    await until('its retry runs', () => lines(t).length >= 2)
    equal(lines(t), ['run', 'run'])
    writeFileSync(join(t.folder, 'go'), '')
    equal((await b.outcome(job.retriedBy)).state, 'completed')
})

for (const [how, end] of [['was killed', 'kill'], ['was stopped', 'stop']])
    test(`a node that ${how} and comes back adopts its commands, and the other leaves them alone`, async (t) => {
        const [a, b] = await two(t, 60000)
        const id = await a.enqueue('wait')
        await until('it runs', () => lines(t).length === 1)
        const [first, other] = (await a.get(`/jobs/${id}`)).body.owner === 'a' ? [a, b] : [b, a]
        first.options.unchecked = true
        await first[end]()
        const fresh = await other.enqueue('http', { payload: { url: `${other.address}/healthz`, method: 'GET' } })
        equal((await other.outcome(fresh)).state, 'completed')
        await first.start()
        await first.ready()
        equal((await other.get(`/jobs/${id}`)).body.state, 'running')
        writeFileSync(join(t.folder, 'go'), '')
        const job = await other.outcome(id)
        equal([job.state, job.attempt, job.retriedBy, lines(t)], ['completed', 1, null, ['run']])
    })

test('a node that was stopped for longer than its lease gives up its runs', async (t) => {
    const [a, b] = await two(t, 2000, { config: '' })
    const id = await a.enqueue('wait', { maxRetries: 0 })
    await until('it runs', () => lines(t).length === 1)
    a.child.kill('SIGSTOP')
    const job = await b.outcome(id)
    equal([job.state, job.error.type, job.retryReason], ['failed', 'crash', 'exhausted'])
    a.child.kill('SIGCONT')
    await until('a finds out', () => a.stderr.includes('node_judged_dead') || a.stderr.includes('report_refused'))
    const again = await a.enqueue('wait')
    writeFileSync(join(t.folder, 'go'), '')
    equal((await a.outcome(again)).state, 'completed')
    equal(lines(t), ['run', 'run'])
})
