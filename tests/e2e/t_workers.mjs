// SPDX-License-Identifier: Apache-2.0
//
// Remote workers over HTTP: they claim, wait in line, beat, report, and hang up.
import { spawn } from 'node:child_process'

import { startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const claim = async (server, more = {}, options) =>
    (await server.post('/claim', { session: 's1', ...more }, options)).body.runs
const state = async (server, id) => (await server.get(`/jobs/${id}`)).body.state
const worker = async (server, session) =>
    (await server.get('/workers')).body.items.find((w) => w.session === session)

// Claims that wait hold a connection each.
const waiting = async (server, n) =>
    until(`${n} claims wait`, async () => (await server.get('/stats')).body.node.waitingClaims === n)

test('a run is claimed and completed', async (t) => {
    const server = await startServer(t)
    const text = '{"kind":"k","queue":"q","payload":{"n":0.10},"metadata":{"a":"b"},"uniqueKey":"u","priority":7}'
    const job = (await server.post('/jobs', text)).body
    const answer = await server.post('/claim', { session: 's1', queues: ['other', 'q'] })
    has(answer.text, '"payload":{"n":0.10}')
    const [run] = answer.body.runs
    for (const name of ['id', 'rootId', 'project', 'queue', 'kind', 'metadata', 'uniqueKey', 'priority', 'attempt',
        'maxRetries', 'retriesLeft', 'runAt', 'createdAt'])
        equal(run[name], job[name], name)
    check(Date.parse(run.deadlineAt) - Date.parse(run.startedAt) === job.maxExecutionTimeMs)
    equal(await claim(server, { queues: ['q'] }), [])
    const progress = { session: 's1', percent: 40, text: 'half way' }
    equal((await server.post(`/runs/${job.id}/progress`, progress)).body, { cancel: false })
    const running = (await server.get(`/jobs/${job.id}`)).body
    equal([running.state, running.progress, running.owner], ['running', { percent: 40, text: 'half way' }, 's1'])
    const done = await server.post(`/runs/${job.id}/complete`, `{"session":"s1","result": {"n":0.10} }`)
    equal(done.body, { id: job.id, state: 'completed', retryId: null })
    has((await server.get(`/jobs/${job.id}`)).text, '"result":{"n":0.10}')
})

test('a failed run is retried as its policy says', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('k', { retryDelaysSeconds: [0], maxRetries: 1 })
    await claim(server)
    const error = { type: 'network', class: 'ECONNRESET', message: 'it broke', details: { at: [1, 2] } }
    const { body } = await server.post(`/runs/${id}/fail`, { session: 's1', error })
    equal([body.id, body.state], [id, 'failed'])
    equal((await server.get(`/jobs/${id}`)).body.error, error)
    const [retry] = await claim(server)
    equal([retry.id, retry.attempt, retry.retriesLeft], [body.retryId, 2, 0])
    const last = await server.post(`/runs/${retry.id}/fail`, { session: 's1', error: { message: 'again' } })
    equal(last.body.retryId, null)
    equal((await server.get(`/jobs/${retry.id}`)).body.error.type, 'other')
})

test('the same claimId is given the same runs', async (t) => {
    const server = await startServer(t)
    for (let i = 0; i < 4; i++) await server.enqueue('k')
    const first = await claim(server, { claimId: 'c1', count: 2 })
    equal(first.length, 2)
    equal(await claim(server, { claimId: 'c1', count: 2 }), first)
    const other = await claim(server, { claimId: 'c2', count: 10 })
    equal(other.length, 2)
    check(!other.some((run) => first.some((f) => f.id === run.id)))
})

test('what is wrong with a claim is told with the field', async (t) => {
    const server = await startServer(t)
    const bad = [
        [{}, 'session'], [{ session: '' }, 'session'], [{ session: 7 }, 'session'],
        [{ session: 's', queues: [] }, 'queues'], [{ session: 's', queues: ['a b'] }, 'queues'],
        [{ session: 's', queues: 'q' }, 'queues'], [{ session: 's', queues: Array(101).fill('q') }, 'queues'],
        [{ session: 's', count: 0 }, 'count'], [{ session: 's', count: 1001 }, 'count'],
        [{ session: 's', waitMs: -1 }, 'waitMs'], [{ session: 's', waitMs: 600001 }, 'waitMs'],
        [{ session: 's', claimId: '' }, 'claimId'], [{ session: 's', pid: 0 }, 'pid'],
        [{ session: 's', worker: 'x'.repeat(501) }, 'worker'], [{ session: 's', colour: 'red' }, 'colour'],
    ]
    for (const [body, field] of bad) equal((await server.refused(400, 'POST', '/claim', body)).field, field)
    await server.refused(400, 'POST', '/claim', '[]')
    equal((await server.get('/workers')).body.items.filter((w) => w.type === 'remote'), [])
})

test('what is wrong with a report is told and changes nothing', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('k')
    await claim(server)
    const bad = [
        ['complete', {}, 'session'], ['complete', { session: 1 }, 'session'],
        ['complete', { session: 's1', output: 1 }, 'output'], ['progress', { session: 's1' }, undefined],
        ['progress', { session: 's1', percent: 101 }, 'percent'], ['progress', { session: 's1', percent: '4' }, 'percent'],
        ['progress', { session: 's1', text: 'x'.repeat(501) }, 'text'], ['fail', { session: 's1' }, 'error'],
        ['fail', { session: 's1', error: 'x' }, 'error'], ['fail', { session: 's1', error: {} }, 'error.message'],
        ['fail', { session: 's1', error: { message: 'x', type: 'bad luck' } }, 'error.type'],
        ['fail', { session: 's1', error: { message: 'x', type: 'none' } }, 'error.type'],
        ['fail', { session: 's1', error: { message: 7 } }, 'error.message'],
        ['fail', { session: 's1', error: { message: 'x', code: 7 } }, 'code'],
        ['fail', { session: 's1', error: { message: 'x', class: 'x'.repeat(201) } }, 'error.class'],
    ]
    for (const [what, body, field] of bad)
        equal((await server.refused(400, 'POST', `/runs/${id}/${what}`, body)).field, field, `${what} ${JSON.stringify(body)}`)
    await server.refused(413, 'POST', `/runs/${id}/complete`, { session: 's1', result: 'x'.repeat(1 << 20) })
    await server.refused(413, 'POST', `/runs/${id}/fail`, { session: 's1', error: { message: 'x', details: 'x'.repeat(1 << 16) } })
    await server.refused(404, 'POST', '/runs/999999999/complete', { session: 's1' })
    await server.refused(404, 'POST', '/runs/x/complete', { session: 's1' })
    equal(await state(server, id), 'running')
})

test('a late or foreign report is refused', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('k')
    await claim(server)
    await claim(server, { session: 's2' })
    for (const [what, more] of [['complete', {}], ['fail', { error: { message: 'x' } }], ['progress', { percent: 1 }]]) {
        const problem = await server.refused(409, 'POST', `/runs/${id}/${what}`, { session: 's2', ...more })
        equal(problem.type, 'late-result')
    }
    equal(await state(server, id), 'running')
    await server.post(`/runs/${id}/complete`, { session: 's1' })
    await server.refused(409, 'POST', `/runs/${id}/complete`, { session: 's1' })
    await server.refused(409, 'POST', `/runs/${id}/fail`, { session: 's1', error: { message: 'x' } })
    equal(await state(server, id), 'completed')
})

test('a claim that waits is woken by a job', async (t) => {
    const server = await startServer(t)
    const waits = claim(server, { queues: ['q'], waitMs: 600000 })
    await waiting(server, 1)
    await server.enqueue('k', { queue: 'other' })
    const id = await server.enqueue('k', { queue: 'q' })
    equal((await waits).map((r) => r.id), [id])
    await waiting(server, 0)
})

test('a claim that waits in vain is answered with nothing', async (t) => {
    const server = await startServer(t)
    equal(await claim(server, { waitMs: 50 }), [])
    await waiting(server, 0)
})

test('work goes to those who have waited longest and the others stay', async (t) => {
    const server = await startServer(t, { settings: { poll_interval_ms: 60000 } }) // nothing but jobs wakes
    const got = []
    const claims = []
    for (let i = 0; i < 10; i++) {
        claims.push(claim(server, { session: `s${i}`, waitMs: 600000 }).then((runs) => got.push([`s${i}`, runs.length])))
        claims.at(-1).catch(() => {}) // a failing test hangs up
        await waiting(server, i + 1)
    }
    const before = (await server.get('/stats')).body.node.commands
    await server.enqueue('k')
    await until('one has it', () => got.length > 0)
    await waiting(server, 9)
    equal(got, [['s0', 1]])
    const asked = (await server.get('/stats')).body.node.commands - before
    check(asked <= 4, `one job made ${asked} commands`)
    await server.post('/jobs/batch', { jobs: Array(8).fill({ kind: 'k' }) })
    await until('nine have theirs', () => got.length === 9)
    await waiting(server, 1)
    equal(got.map(([s]) => s).sort(), ['s0', 's1', 's2', 's3', 's4', 's5', 's6', 's7', 's8'])
    await server.enqueue('k')
    await Promise.all(claims)
})

test('a resumed queue with a backlog finds all who wait', async (t) => {
    const server = await startServer(t)
    await server.post('/queues/q/pause')
    await server.post('/jobs/batch', { jobs: Array(30).fill({ kind: 'k', queue: 'q' }) })
    const claims = Array.from({ length: 30 }, (_, i) => claim(server, { session: `s${i}`, queues: ['q'], waitMs: 600000 }))
    await waiting(server, 30)
    await server.post('/queues/q/resume')
    const ids = (await Promise.all(claims)).map((runs) => runs[0].id)
    equal(new Set(ids).size, 30)
})

test('who hangs up leaves the line', async (t) => {
    const server = await startServer(t)
    const hangUp = new AbortController()
    const left = claim(server, { waitMs: 600000 }, { signal: hangUp.signal }).catch((e) => e.name)
    const stays = claim(server, { session: 's2', waitMs: 600000 })
    await waiting(server, 2)
    hangUp.abort()
    equal(await left, 'AbortError')
    await waiting(server, 1)
    const id = await server.enqueue('k')
    equal((await stays)[0].id, id)
})

test('a graceful stop answers those who wait', async (t) => {
    const server = await startServer(t)
    const waits = claim(server, { waitMs: 600000 })
    await waiting(server, 1)
    server.child.kill('SIGTERM')
    equal(await waits, [])
    equal((await server.exited).code, 0)
    await server.start()
})

test('a beat renews the lease and says what to stop', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('k')
    const other = await server.enqueue('k')
    await claim(server, { worker: 'crawler', host: 'box1', pid: 4242, count: 2 })
    equal((await server.post('/workers/s1/beat', { runs: [id, other] })).body, { state: 'run', cancel: [] })
    const seen = await worker(server, 's1')
    equal([seen.name, seen.host, seen.pid, seen.runs, seen.state, seen.command], ['crawler', 'box1', 4242, 2, 'alive', 'run'])
    check(Date.parse(seen.leaseUntil) > Date.parse(seen.lastSeenAt))
    const node = (await server.get('/workers')).body.items.find((w) => w.type === 'node')
    equal([node.state, node.pid, node.runs, node.session, node.command], ['alive', server.child.pid, 0, null, null])
    await server.post(`/jobs/${id}/cancel`, { reason: 'enough' })
    equal((await server.post('/workers/s1/beat', { runs: [id, other] })).body, { state: 'run', cancel: [id] })
    equal((await server.post(`/runs/${id}/progress`, { session: 's1', percent: 1 })).body, { cancel: true })
    const ended = await server.post(`/runs/${id}/fail`, { session: 's1', error: { message: 'stopped' } })
    equal(ended.body, { id, state: 'cancelled', retryId: null })
    await server.post('/workers/s1/beat', { runs: [] })
    await server.post('/workers/s1/beat', {})
    equal(await state(server, other), 'running')
    await server.post('/workers/s1/beat', { runs: [] })
    const lost = (await server.get(`/jobs/${other}`)).body
    equal([lost.state, lost.error.type], ['failed', 'crash'])
    for (const runs of ['x', [1], ['x'], [''], ['1'.repeat(30)]])
        equal((await server.refused(400, 'POST', '/workers/s1/beat', { runs })).field, 'runs')
    await server.refused(400, 'POST', '/workers/s1/beat', { colour: 'red' })
    await server.refused(400, 'POST', `/workers/${'x'.repeat(501)}/beat`, {})
    await server.post('/workers/new%2Fone/beat', { worker: 'w', host: 'h', pid: 1 })
    equal((await worker(server, 'new/one')).name, 'w')
})

test('an operator asks a worker to be quiet or to stop', async (t) => {
    const server = await startServer(t)
    await server.refused(404, 'POST', '/workers/s1/quiet')
    await server.post('/workers/s1/beat', {})
    for (const [verb, said] of [['quiet', 'quiet'], ['stop', 'stop'], ['run', 'run']]) {
        equal((await server.post(`/workers/s1/${verb}`)).body, { session: 's1', command: said })
        equal((await server.post('/workers/s1/beat', {})).body.state, said)
        equal((await worker(server, 's1')).command, said)
    }
    await server.refused(400, 'POST', '/workers/s1/stop', { why: 'x' })
    await server.refused(400, 'GET', '/workers?x=1')
})

test('a worker that is silent is dead and its run fails as a crash', async (t) => {
    const server = await startServer(t, { settings: { lease_ms: 1000, poll_interval_ms: 50 } })
    const id = await server.enqueue('k', { maxRetries: 0 })
    await claim(server)
    const job = await server.outcome(id)
    equal([job.state, job.error.type], ['failed', 'crash'])
    equal(await worker(server, 's1'), undefined)
})

test('a worker keeps its run over a restart of the server', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('k')
    await claim(server)
    await server.kill()
    await server.start()
    await server.ready()
    equal(await state(server, id), 'running')
    equal((await server.post(`/runs/${id}/complete`, { session: 's1', result: 1 })).body.state, 'completed')
})

// Nothing can be committed until the returned function is called.
async function holdStore(t, store) {
    const [program, args, lock] = store.startsWith('postgres')
        ? ['psql', ['-qAt', store], "BEGIN; LOCK TABLE holdfast.jobs IN ACCESS EXCLUSIVE MODE; SELECT 'held';\n"]
        : ['sqlite3', [store], ".timeout 10000\nBEGIN IMMEDIATE; SELECT 'held';\n"]
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    t.defer(() => child.kill())
    child.stdin.write(lock)
    await new Promise((done) => child.stdout.on('data', (d) => String(d).includes('held') && done()))
    return () => child.stdin.end('ROLLBACK;\n')
}

async function hangUpDuringClaim(t, more) {
    const server = await startServer(t)
    await server.ready()
    const id = await server.enqueue('k', { maxRetries: 0 })
    const release = await holdStore(t, server.store)
    const hangUp = new AbortController()
    const left = claim(server, more, { signal: hangUp.signal }).catch((e) => e.name)
    for (let i = 0; i < 3; i++) await server.fetch('GET', '/healthz')
    hangUp.abort()
    equal(await left, 'AbortError')
    for (let i = 0; i < 3; i++) await server.fetch('GET', '/healthz')
    release()
    return { server, id }
}

test('runs given to who had hung up are handed back and use up nothing', async (t) => {
    const { server, id } = await hangUpDuringClaim(t, {})
    const job = await server.outcome(id)
    equal([job.state, job.error.type, job.retryState], ['failed', 'interrupted', 'retried'])
    const [run] = await claim(server, { session: 's2' })
    equal([run.id, run.attempt, run.retriesLeft], [job.retriedBy, 2, 0])
})

test('with a claimId they wait for the repeated claim', async (t) => {
    const { server, id } = await hangUpDuringClaim(t, { claimId: 'c1' })
    await until('it was given out', async () => (await state(server, id)) === 'running')
    equal((await claim(server, { claimId: 'c1' })).map((r) => r.id), [id])
    equal((await server.post(`/runs/${id}/complete`, { session: 's1' })).body.state, 'completed')
})
