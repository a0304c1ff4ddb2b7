// SPDX-License-Identifier: Apache-2.0
//
// A start with much to recover: the API answers before, during and after, nothing that
// is asked fails, and the report counts what there was.  (How fast is bench_start.mjs.)
import { leaveRunning } from './lib/crashed.mjs'
import { sql, startServer } from './lib/server.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, note, test, until } from './lib/test.mjs'

const RUNNING = 20_000
const QUEUED = 20_000

test('20,000 running and 20,000 queued jobs left by a crash', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { config: '[queue default]\nslots = 4\n' })
    await server.ready()
    await server.kill()
    const { first } = await leaveRunning(server, RUNNING, QUEUED, target.url('/old'))
    await server.start()
    const answers = { healthz: 0, enqueued: [], recovering: 0 }
    for (let recovering = true; recovering; ) {
        equal((await server.fetch('GET', '/healthz')).status, 200)
        answers.healthz++
        answers.enqueued.push(await server.enqueue('http', { payload: { url: target.url(`/fresh${answers.healthz}`) } }))
        const ready = await server.fetch('GET', '/readyz')
        recovering = ready.status === 503
        if (recovering) equal([ready.body.status, ready.body.recovering], ['recovering', true])
        answers.recovering += recovering
    }
    note(`${answers.healthz} rounds of requests, ${answers.recovering} of them during the recovery`)
    check(answers.recovering > 0, 'the API answered while the recovery was under way')
    await until('its summary is logged', () => server.stderr.includes(`running_failed=${RUNNING} `))
    has(server.stderr, `retries_created=${RUNNING} `)
    has(server.stderr, 'unresolved=0')
    check(server.stderr.lastIndexOf(' listening ') < server.stderr.indexOf(' job_recovered '), 'the API was first')
    equal((server.stderr.match(/ job_recovered /g) ?? []).length, 1000)
    const { items } = (await server.get('/recoveries?limit=1')).body
    equal(items[0].runningFailed ?? items[0].report?.runningFailed, RUNNING)
    // Fresh work is not behind the old.
    for (const id of answers.enqueued) equal((await server.outcome(id)).state, 'completed')
    for (const n of [1, 2, RUNNING / 2, RUNNING]) {
        const job = (await server.get(`/jobs/${first + n}`)).body
        equal([job.state, job.error.type, job.retryState], ['failed', 'crash', 'retried'])
    }
    equal(sql(server.store, `SELECT count(*) FROM jobs WHERE retry_of > ${first} AND retry_of <= ${first + RUNNING}`), String(RUNNING))
    equal(sql(server.store, `SELECT count(*) FROM runs WHERE finished_at IS NULL AND owner_id <> (SELECT max(id) FROM owners WHERE state = 1)`), '0')
})
