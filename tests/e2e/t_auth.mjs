// SPDX-License-Identifier: Apache-2.0
//
// Who may call: tokens and their roles, tokens that are bound to a project, and pages of
// other sites, which may not.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'

import { onPostgres, sql, startServer } from './lib/server.mjs'
import { openStream } from './lib/stream.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const admin = randomBytes(16).toString('hex')

async function startClosed(t, more = {}) {
    const server = await startServer(t, { ...more, env: { HOLDFAST_ADMIN_TOKEN: admin } })
    server.token = admin
    await until('it has read its tokens', async () => (await server.fetch('GET', '/api/v1/queues', undefined, as('none'))).status === 401)
    return server
}
const as = (token) => ({ headers: { authorization: `Bearer ${token}` } })
const make = async (server, role, project) => (await server.post('/tokens', { name: `a ${role}`, role, project })).body

test('without a token nothing is told but that the server is there', async (t) => {
    const server = await startClosed(t)
    server.token = null
    for (const path of ['/healthz', '/readyz']) check((await server.fetch('GET', path)).status !== 401, path)
    const answer = await server.fetch('GET', '/api/v1/jobs/1')
    equal([answer.status, answer.headers['www-authenticate'], answer.body.type], [401, 'Bearer', 'unauthorized'])
    for (const [method, path] of [['GET', '/queues'], ['POST', '/jobs'], ['GET', '/tokens'], ['GET', '/nothing'], ['POST', '/claim']])
        await server.refused(401, method, path)
    for (const headers of [{ authorization: `Bearer ${admin}x` }, { authorization: admin }, { authorization: 'Basic YTpi' }, { authorization: 'Bearer ' }])
        await server.refused(401, 'GET', '/queues', undefined, { headers })
    await server.get('/queues', { headers: { authorization: `bearer ${admin}` } })
})

test('a token is shown once and only its hash is kept', async (t) => {
    const server = await startClosed(t)
    const made = await server.post('/tokens', { name: 'ci', role: 'producer' })
    equal([made.status, made.body.name, made.body.role, made.body.project], [201, 'ci', 'producer', null])
    check(/^hf_[0-9a-f]{64}$/.test(made.body.token))
    const { token, ...rest } = made.body
    const listed = await server.get('/tokens')
    equal(listed.body.items, [rest])
    check(!listed.text.includes(token))
    const kept = sql(server.store, `SELECT ${onPostgres ? "encode(hash, 'hex')" : 'hex(hash)'} FROM tokens`)
    check(kept.length === 64 && !token.includes(kept.toLowerCase()))
    equal((await server.post('/jobs', { kind: 'k' }, as(token))).status, 201)
    equal((await server.fetch('DELETE', `/api/v1/tokens/${rest.id}`)).status, 204)
    await server.refused(401, 'POST', '/jobs', { kind: 'k' }, as(token))
    await server.refused(404, 'DELETE', `/tokens/${rest.id}`)
    await server.refused(404, 'DELETE', '/tokens/x')
    equal((await server.get('/tokens')).body.items, [])
    check(!server.stderr.includes(token) && !server.stderr.includes(admin))
})

test('what is wrong with a new token is told', async (t) => {
    const server = await startClosed(t)
    const bad = [
        [{ role: 'viewer' }, 'name'], [{ name: '', role: 'viewer' }, 'name'], [{ name: 7, role: 'viewer' }, 'name'],
        [{ name: 'x'.repeat(201), role: 'viewer' }, 'name'], [{ name: 'a' }, 'role'], [{ name: 'a', role: 'king' }, 'role'],
        [{ name: 'a', role: 'none' }, 'role'], [{ name: 'a', role: 1 }, 'role'],
        [{ name: 'a', role: 'worker', project: 'default' }, 'role'], [{ name: 'a', role: 'operator', project: 'default' }, 'role'],
        [{ name: 'a', role: 'admin', project: 'default' }, 'role'], [{ name: 'a', role: 'viewer', project: 'a b' }, 'project'],
        [{ name: 'a', role: 'viewer', x: 1 }, 'x'],
    ]
    for (const [body, field] of bad) equal((await server.refused(400, 'POST', '/tokens', body)).field, field)
    equal((await server.refused(404, 'POST', '/tokens', { name: 'a', role: 'viewer', project: 'nobodys' })).field, 'project')
    equal((await server.get('/tokens')).body.items, [])
})

test('each role may do its own and no more', async (t) => {
    const server = await startClosed(t)
    const id = await server.enqueue('k', { delayMs: 1000000 })
    const calls = {
        look: ['GET', `/jobs/${id}`], enqueue: ['POST', '/jobs', { kind: 'k', queue: 'elsewhere' }],
        change: ['PATCH', `/jobs/${id}`, { priority: 7 }], claim: ['POST', '/claim', { session: 's', queues: ['none'] }],
        beat: ['POST', '/workers/s/beat', {}], pause: ['POST', '/queues/q/pause', {}],
        settings: ['PATCH', '/queues/q', { slots: 1 }], reserve: ['POST', '/queues/r/reservations', { holder: 'h', ttlMs: 1 }],
        retry: ['POST', `/jobs/${id}/retry`, {}], project: ['POST', '/projects', { name: 'p' }], tokens: ['GET', '/tokens'],
    }
    const mays = {
        viewer: ['look'], producer: ['look', 'enqueue', 'change'], worker: ['look', 'claim', 'beat'],
        operator: Object.keys(calls).filter((c) => c !== 'tokens'), admin: Object.keys(calls),
    }
    for (const [role, may] of Object.entries(mays)) {
        const { token } = await make(server, role)
        for (const [name, [method, path, body]] of Object.entries(calls)) {
            const { status, body: answer } = await server.fetch(method, `/api/v1${path}`, body, as(token))
            const allowed = status !== 403 && status !== 401
            check(allowed === may.includes(name), `a ${role} and ${name}: ${status}`)
            if (!allowed) has(answer.detail, `the role ${role}`)
        }
    }
})

test('a token that is bound to a project sees and makes only its jobs', async (t) => {
    const server = await startClosed(t)
    await server.post('/projects', { name: 'shop' })
    const { token, project } = await make(server, 'producer', 'shop')
    equal(project, 'shop')
    const foreign = await server.enqueue('k', { delayMs: 1000000 })
    const own = (await server.post('/jobs', { kind: 'k', delayMs: 1000000 }, as(token))).body
    equal(own.project, 'shop')
    equal((await server.get(`/jobs/${own.id}`, as(token))).body.id, own.id)
    await server.refused(403, 'POST', '/jobs', { kind: 'k', project: 'default' }, as(token))
    await server.refused(403, 'POST', '/jobs/batch', { jobs: [{ kind: 'k' }, { kind: 'k', project: 'default' }] }, as(token))
    await server.refused(404, 'GET', `/jobs/${foreign}`, undefined, as(token))
    await server.refused(404, 'GET', `/jobs/${foreign}?waitMs=10`, undefined, as(token))
    await server.refused(404, 'PATCH', `/jobs/${foreign}`, { priority: 9 }, as(token))
    await server.refused(404, 'POST', `/jobs/${foreign}/cancel`, {}, as(token))
    const untouched = (await server.get(`/jobs/${foreign}`)).body
    equal([untouched.state, untouched.priority], ['scheduled', 5])
    equal((await server.post(`/jobs/${own.id}/cancel`, {}, as(token))).body.state, 'cancelled')
    equal((await server.get('/projects', as(token))).body.items.map((p) => p.name), ['shop'])
    for (const path of ['/queues', '/queues/default', '/workers', '/recoveries', '/stats'])
        has((await server.refused(403, 'GET', path, undefined, as(token))).detail, 'shop')
})

test('the cursor of a chain leads into no other', async (t) => {
    const server = await startClosed(t, { config: '[command fail]\nargv = /bin/false\nmax_retries = 0\n' })
    await server.post('/projects', { name: 'shop' })
    const { token } = await make(server, 'viewer', 'shop')
    const own = await server.enqueue('later', { project: 'shop', delayMs: 1000000 })
    const foreign = await server.enqueue('fail', { payload: 'private' })
    await server.outcome(foreign)
    await server.post(`/jobs/${foreign}/retry`)
    for (const cursor of [foreign, '999999999']) {
        const problem = await server.refused(400, 'GET', `/jobs/${own}/chain?cursor=${cursor}`, undefined, as(token))
        equal(problem.field, 'cursor')
    }
    equal((await server.get(`/jobs/${own}/chain?cursor=${own}`, as(token))).body, { items: [], nextCursor: null })
})

test('a stream ends with its token and others go on', async (t) => {
    const server = await startClosed(t)
    const open = (token) => openStream(t, server, '', as(token).headers)
    const [leaves, stays] = [await make(server, 'viewer'), await make(server, 'viewer')]
    const [ends, viewer, own] = [await open(leaves.token), await open(stays.token), await open(admin)]
    await server.del(`/tokens/${leaves.id}`)
    await until('it is cut', () => ends.ended)
    const id = await server.enqueue('k', { delayMs: 1000000 })
    for (const stream of [viewer, own]) await stream.until((e) => e.data.jobId === id)
    check(!ends.events.some((e) => e.data.jobId === id))
})

test('tokens outlive a restart and reach the other nodes', async (t) => {
    const server = await startClosed(t)
    const { id, token } = await make(server, 'viewer')
    await server.restart()
    await until('the tokens are read', async () => (await server.fetch('GET', '/api/v1/projects', undefined, as(token))).status === 200)
    if (!onPostgres) return
    const other = await startClosed(t, { store: server.store, unchecked: true })
    await until('it is known there', async () => (await other.fetch('GET', '/api/v1/projects', undefined, as(token))).status === 200)
    await server.fetch('DELETE', `/api/v1/tokens/${id}`)
    await until('it is refused there', async () => (await other.fetch('GET', '/api/v1/projects', undefined, as(token))).status === 401)
})

test('a loopback server asks for no token and still heeds one it knows', async (t) => {
    const server = await startServer(t)
    await server.get('/queues')
    const { token } = await make(server, 'viewer')
    await server.refused(403, 'POST', '/jobs', { kind: 'k' }, as(token))
    await server.post('/jobs', { kind: 'k' }, as('whatever'))
})

test('a name that is not ours is refused', async (t) => {
    const server = await startServer(t, { settings: { allowed_hosts: 'jobs.example.com,other.example:8080' } })
    const port = new URL(server.address).port
    const status = async (host) => (await server.fetch('GET', '/api/v1/queues', undefined, { headers: { host } })).status
    const good = ['localhost', `localhost:${port}`, 'LOCALHOST', `127.0.0.1:${port}`, '127.8.9.1', `[::1]:${port}`, '[::1]',
        'jobs.example.com', 'JOBS.example.com:443', 'other.example:8080']
    const bad = ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '10.0.0.1', '127.0.0.1.evil.example',
        'example.com', 'xjobs.example.com', 'other.example', '[::2]', '0.0.0.0', 'local']
    for (const host of good) equal([host, await status(host)], [host, 200])
    for (const host of bad) equal([host, await status(host)], [host, 403])
    const problem = await server.refused(403, 'POST', '/jobs', { kind: 'k' }, { headers: { host: 'evil.example' } })
    equal(problem.field, 'Host')
    has(problem.detail, 'allowed_hosts')
})

test('a page of another site can neither read nor change anything', async (t) => {
    const server = await startServer(t)
    const own = server.address
    const bad = [
        { origin: 'http://evil.example' }, { origin: 'null' }, { origin: own.replace(/\d+$/, '1') }, { origin: `${own}.evil` },
        { origin: 'file://' }, { origin: own.replace('http', 'ftp') }, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
        { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' }, { 'sec-fetch-site': 'cross-site' },
    ]
    for (const headers of bad) {
        equal((await server.refused(403, 'POST', '/jobs', { kind: 'k' }, { headers })).field, 'Origin')
        await server.refused(403, 'GET', '/queues', undefined, { headers })
    }
    equal((await server.fetch('OPTIONS', '/api/v1/jobs', undefined, { headers: { origin: 'http://evil.example' } })).status, 403)
    equal((await server.get('/stats')).body.totals.accepted, 0)
    for (const headers of [{ origin: own }, { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }, { 'sec-fetch-site': 'none' }])
        equal((await server.post('/jobs', { kind: 'k' }, { headers })).status, 201)
    await server.get('/queues', { headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' } })
})

test('over a Unix socket any name is fine', async (t) => {
    const server = await startServer(t, { listen: `unix:${join(t.folder, 's')}` })
    await server.get('/queues', { headers: { host: 'anything' } })
})
