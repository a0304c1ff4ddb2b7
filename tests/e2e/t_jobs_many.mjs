// SPDX-License-Identifier: Apache-2.0
//
// Cancelling and retrying all jobs that a filter finds.
import { spawn } from 'node:child_process'

import { startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const failing = '[command fail]\nargv = /bin/false\nmax_retries = 0\n'

const batch = async (server, count, job) =>
    (await server.post('/jobs/batch', { jobs: Array.from({ length: count }, () => job) })).body.ids

async function count(server, query) {
    let n = 0
    for (let cursor = ''; cursor !== null;) {
        const page = (await server.get(`/jobs?limit=1000&${query}${cursor}`)).body
        n += page.items.length
        cursor = page.nextCursor && `&cursor=${page.nextCursor}`
    }
    return n
}

test('all that a filter finds is cancelled and nothing else', async (t) => {
    const server = await startServer(t)
    await batch(server, 1200, { kind: 'a', queue: 'one' })
    await batch(server, 3, { kind: 'b', queue: 'one', delayMs: 3600000, metadata: { team: 'x' } })
    await batch(server, 2, { kind: 'a', queue: 'two' })
    const over = await server.enqueue('a', { queue: 'one' })
    await server.post(`/jobs/${over}/cancel`, { reason: 'before' })

    const dry = { queue: 'one', dryRun: true }
    equal((await server.post('/jobs/cancel', dry)).body, { matched: 1203, changed: 1203, skipped: 0 })
    equal(await count(server, 'state=cancelled'), 1)
    equal((await server.post('/jobs/cancel', { 'metadata.team': 'x', reason: 'team' })).body,
        { matched: 3, changed: 3, skipped: 0 })
    const cancelled = (await server.get('/jobs?kind=b')).body.items[0]
    equal([cancelled.state, cancelled.error.message], ['cancelled', 'team'])
    equal((await server.post('/jobs/cancel', { queue: 'one', state: 'queued,cancelled', dryRun: true })).body,
        { matched: 1204, changed: 1200, skipped: 4 })
    equal((await server.post('/jobs/cancel', { queue: 'one', kind: 'a' })).body,
        { matched: 1200, changed: 1200, skipped: 0 })
    equal((await server.post('/jobs/cancel', { queue: 'one' })).body, { matched: 0, changed: 0, skipped: 0 })
    equal(await count(server, 'queue=two&state=queued'), 2)
    equal((await server.get(`/jobs/${over}`)).body.error.message, 'before')
    equal((await server.post('/jobs/cancel', { queue: 'nobody' })).body, { matched: 0, changed: 0, skipped: 0 })
})

test('all that has failed is retried once and chains that went on are left alone', async (t) => {
    const server = await startServer(t, { config: failing })
    const ids = await batch(server, 5, { kind: 'fail' })
    for (const id of ids) await server.outcome(id)
    const retried = (await server.post(`/jobs/${ids[0]}/retry`)).body.id
    await server.outcome(retried)
    equal((await server.post('/jobs/retry', { kind: 'fail', dryRun: true })).body, { matched: 6, changed: 5, skipped: 1 })
    equal((await server.post('/jobs/retry', { state: ['failed'], final: true })).body, { matched: 5, changed: 5, skipped: 0 })
    for (const id of ids) {
        const chain = (await server.get(`/jobs/${id}/chain`)).body.items
        equal(chain.length, id === ids[0] ? 3 : 2)
        await server.outcome(chain.at(-1).id)
    }
    const later = await server.enqueue('remote', { delayMs: 3600000 })
    equal((await server.post('/jobs/retry', { kind: 'remote', state: 'scheduled,queued' })).body,
        { matched: 1, changed: 1, skipped: 0 })
    equal((await server.get(`/jobs/${later}`)).body.state, 'queued')
    equal((await server.post('/jobs/retry', { kind: 'remote', state: 'scheduled,queued' })).body,
        { matched: 1, changed: 0, skipped: 1 })
})

test('a source that is taken is skipped', async (t) => {
    const server = await startServer(t, { config: failing })
    const failed = await server.enqueue('fail', { uniqueKey: 'k' })
    await server.outcome(failed)
    await server.enqueue('remote', { uniqueKey: 'k' })
    equal((await server.post('/jobs/retry', { uniqueKey: 'k' })).body, { matched: 1, changed: 0, skipped: 1 })
})

// Keeps everybody else from writing until it is called.
async function lockStore(t, store) {
    const [program, args, text] = store.startsWith('postgres')
        ? ['psql', ['-qAt', store], "BEGIN; LOCK TABLE holdfast.jobs IN SHARE ROW EXCLUSIVE MODE; SELECT 'locked';\n"]
        : ['sqlite3', ['-cmd', '.timeout 10000', store], "BEGIN IMMEDIATE; SELECT 'locked';\n"]
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    t.defer(() => child.kill('SIGKILL'))
    const ended = new Promise((done) => child.on('exit', done))
    child.stdin.write(text)
    await new Promise((done) => child.stdout.once('data', done))
    return () => {
        child.stdin.end('ROLLBACK;\n')
        return ended
    }
}

test('it stops when the client hangs up', async (t) => {
    const server = await startServer(t)
    await batch(server, 5000, { kind: 'a', queue: 'one' })
    const unlock = await lockStore(t, server.store)
    const leaving = new AbortController()
    const request = server.fetch('POST', '/api/v1/jobs/cancel', { queue: 'one' }, { signal: leaving.signal })
    const gone = request.then(() => 'answered', () => 'gone')
    // The request is there when a later one, of another connection, has been answered.
    for (let i = 0; i < 20; i++) await server.get('/jobs?limit=1')
    leaving.abort()
    equal(await gone, 'gone')
    for (let i = 0; i < 20; i++) await server.get('/jobs?limit=1')
    await unlock()
    let stable = 0
    let before = -1
    await until('nothing is cancelled any more', async () => {
        await server.enqueue('b')
        const now = await count(server, 'queue=one&state=cancelled')
        stable = now === before ? stable + 1 : 0
        before = now
        return stable === 3
    })
    check(before <= 500, `${before} were cancelled for nobody`)
})

test('what is wrong is told and at least one filter is asked for', async (t) => {
    const server = await startServer(t)
    for (const act of ['cancel', 'retry']) {
        for (const body of [undefined, {}, { dryRun: true }])
            has((await server.refused(400, 'POST', `/jobs/${act}`, body)).detail, 'at least one')
        for (const [body, field] of [
            [{ state: 'old' }, 'state'], [{ state: [] }, 'state'], [{ state: [7] }, 'state'], [{ state: 7 }, 'state'],
            [{ final: 'yes' }, 'final'], [{ queue: 'a b' }, 'queue'], [{ queue: 1 }, 'queue'], [{ queue: true }, 'queue'], [{ kind: false }, 'kind'], [{ colour: 'red' }, 'colour'],
            [{ metadata: 'x' }, 'metadata'], [{ metadata: { a: 1 } }, 'metadata'], [{ createdAfter: 'then' }, 'createdAfter'],
            [{ queue: 'a', dryRun: 1 }, 'dryRun'], [{ queue: 'a', limit: 1 }, 'limit'], [{ queue: null }, 'queue'],
        ])
            equal((await server.refused(400, 'POST', `/jobs/${act}`, body)).field, field, JSON.stringify(body))
        for (const text of ['{', '[]', '"a"', '{"queue":"a","queue":"b"}'])
            await server.refused(400, 'POST', `/jobs/${act}`, text)
        await server.refused(404, 'POST', `/jobs/${act}`, { project: 'nobodys' })
    }
    equal((await server.refused(400, 'POST', '/jobs/cancel', { queue: 'a', reason: 7 })).field, 'reason')
    equal((await server.refused(400, 'POST', '/jobs/retry', { queue: 'a', reason: 'x' })).field, 'reason')
})
