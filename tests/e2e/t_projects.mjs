// SPDX-License-Identifier: Apache-2.0
//
// Projects over HTTP: shown with what is in them, paused, and deleted with all of it
// only when that is asked for, also over kill -9.
import { sql, startServer } from './lib/server.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const admin = 'the-token-of-the-admin'
const as = (token) => ({ headers: { authorization: `Bearer ${token}` } })

async function gone(server, name) {
    await until(`${name} is gone`, async () => (await server.fetch('GET', `/api/v1/projects/${name}`)).status === 404)
}

async function ended(server, id) {
    return until(`job ${id} has ended`, async () => {
        const { body } = await server.get(`/jobs/${id}`)
        return ['completed', 'failed', 'cancelled'].includes(body.state) && body
    })
}

test('a project shows what is in it', async (t) => {
    const server = await startServer(t)
    await server.post('/projects', { name: 'shop' })
    const empty = { schedules: 0, endpoints: 0, webhooks: 0, tokens: 0, liveJobs: 0, finishedJobs: 0, allCounted: true }
    const shown = (await server.get('/projects/shop')).body
    equal([shown.name, shown.paused, shown.deleting, shown.holds], ['shop', false, false, empty])
    const id = await server.enqueue('k', { project: 'shop' })
    await server.enqueue('k', { project: 'shop' })
    await server.enqueue('k')
    await server.post(`/jobs/${id}/cancel`)
    equal((await server.get('/projects/shop')).body.holds, { ...empty, liveJobs: 1, finishedJobs: 1 })
    equal((await server.get('/projects')).body.items[1].holds, undefined)
    await server.refused(404, 'GET', '/projects/none')
    await server.refused(400, 'GET', '/projects/shop?x=1')
    await server.refused(400, 'GET', '/projects/a%20b')
    await server.refused(404, 'POST', '/projects/none/pause')
    await server.refused(404, 'DELETE', '/projects/none')
    await server.refused(400, 'DELETE', '/projects/shop?cascade=maybe')
})

test('an empty project is deleted and its name is free again', async (t) => {
    const server = await startServer(t)
    await server.post('/projects', { name: 'shop' })
    const { status, body } = await server.del('/projects/shop')
    equal([status, body.name, body.deleting], [202, 'shop', true])
    await gone(server, 'shop')
    await server.refused(404, 'POST', '/jobs', { kind: 'k', project: 'shop' })
    await server.post('/projects', { name: 'shop' })
    const id = await server.enqueue('k', { project: 'shop' })
    equal((await server.get('/jobs?project=shop')).body.items.map((j) => j.id), [id])
    has((await server.refused(409, 'DELETE', '/projects/default?cascade=true')).detail, 'cannot be deleted')
})

test('one that is not empty is kept unless everything in it is to go', async (t) => {
    const server = await startServer(t, { env: { HOLDFAST_ADMIN_TOKEN: admin } })
    const target = await startTarget(t)
    server.token = admin
    await until('tokens are read', async () => (await server.fetch('GET', '/api/v1/projects')).status === 200)
    await server.post('/projects', { name: 'shop' })
    const { token } = (await server.post('/tokens', { name: 'web', role: 'producer', project: 'shop' })).body
    const request = (path, more) => ({ project: 'shop', payload: { url: target.url(path), method: 'GET' }, ...more })
    const done = await server.enqueue('http', request('/a'))
    await ended(server, done)
    const waits = await server.enqueue('k', { project: 'shop' })
    const runs = await server.enqueue('http', request('/slow'))
    await until('it runs', () => target.count('/slow') === 1)
    const other = await server.enqueue('k', { project: 'default' })
    const problem = await server.refused(409, 'DELETE', '/projects/shop')
    for (const part of ['1 tokens', '2 live', '1 finished', 'cascade=true']) has(problem.detail, part)
    equal((await server.get(`/jobs/${waits}`)).body.state, 'queued')
    equal((await server.get('/projects/shop', as(token))).body.name, 'shop')
    await server.refused(404, 'GET', '/projects/default', undefined, as(token))
    await server.refused(403, 'DELETE', '/projects/shop?cascade=true', undefined, as(token))

    const { status, body } = await server.del('/projects/shop?cascade=true')
    equal([status, body.deleting], [202, true])
    await gone(server, 'shop')
    for (const id of [done, waits, runs]) await server.refused(404, 'GET', `/jobs/${id}`)
    equal((await server.get(`/jobs/${other}`)).body.state, 'queued')
    await until('its token is good for nothing', async () =>
        (await server.fetch('GET', '/api/v1/projects', undefined, as(token))).status === 401)
    const { accepted, pruned, counts } = (await server.get('/queues/default')).body
    equal([accepted, pruned, counts.queued, counts.cancelled, counts.completed], [4, 3, 1, 0, 0])
})

test('a deletion goes on after kill -9', async (t) => {
    const server = await startServer(t)
    const target = await startTarget(t)
    await server.post('/projects', { name: 'shop' })
    const jobs = Array.from({ length: 2000 }, () => ({ kind: 'k', project: 'shop' }))
    await server.post('/jobs/batch', { jobs })
    const slow = { project: 'shop', payload: { url: target.url('/slow'), method: 'GET' } }
    await server.enqueue('http', slow)
    await until('it runs', () => target.count('/slow') === 1)
    await server.del('/projects/shop?cascade=true')
    await server.kill()
    await server.start()
    await gone(server, 'shop')
    const { accepted, pruned, counts } = (await server.get('/queues/default')).body
    check(accepted === pruned && pruned >= 2001, `${pruned} of ${accepted}`) // its run was retried, perhaps
    check(Object.values(counts).every((n) => n === 0), JSON.stringify(counts))
})

test('while it is being deleted it takes nothing new', async (t) => {
    const server = await startServer(t)
    const target = await startTarget(t)
    await server.post('/projects', { name: 'shop' })
    const claimed = await server.enqueue('k', { project: 'shop' })
    const { body } = await server.post('/claim', { worker: 'w', session: 's1', queues: ['default'], count: 1 })
    equal(body.runs.map((r) => r.id), [claimed])
    await server.del('/projects/shop?cascade=true')
    has((await server.refused(409, 'POST', '/jobs', { kind: 'k', project: 'shop' })).detail, 'being deleted')
    has((await server.refused(409, 'POST', '/projects', { name: 'shop' })).detail, 'being deleted')
    await server.refused(409, 'POST', '/projects/shop/pause')
    equal((await server.get('/projects/shop')).body.deleting, true)
    equal((await server.del('/projects/shop')).status, 202) // asked again
    await until('the worker is asked to stop', async () => (await server.get(`/jobs/${claimed}`)).body.state === 'cancelling')
    await server.post(`/runs/${claimed}/fail`, { session: 's1', error: { type: 'other', message: 'stopped' } })
    await gone(server, 'shop')
    check(target.total() === 0)
})

test('what makes new things goes first, and nothing of it is left', async (t) => {
    const server = await startServer(t)
    const target = await startTarget(t)
    await server.post('/projects', { name: 'shop' })
    const schedule = (await server.post('/schedules', { name: 's', kind: 'k', project: 'shop', everyMs: 1000, overlap: 'queue' })).body
    const endpoint = (await server.post('/projects/shop/endpoints', { name: 'e', url: target.url('/a'), everyMs: 1000 })).body
    const webhook = (await server.post('/webhooks', { project: 'shop', url: target.url('/hook'), events: ['*'] })).body
    const other = (await server.post('/schedules', { name: 's', kind: 'k', everyMs: 3600000 })).body
    await until('it has fired, and was told of', () => target.count('/a') >= 1 && target.count('/hook') >= 1)
    has((await server.refused(409, 'DELETE', '/projects/shop')).detail, '2 schedules (1 of them endpoints), 1 webhooks')
    await server.del('/projects/shop?cascade=true')
    await gone(server, 'shop')
    for (const path of [`/schedules/${schedule.id}`, `/schedules/${endpoint.id}`, `/webhooks/${webhook.id}`]) await server.refused(404, 'GET', path)
    equal((await server.get('/schedules')).body.items.map((s) => s.id), [other.id])
    for (const table of ['fires', 'endpoints', 'webhooks', 'jobs']) equal([table, sql(server.store, `SELECT count(*) FROM ${table}`)], [table, '0'])
    await until('no delivery is left', () => sql(server.store, 'SELECT count(*) FROM deliveries') === '0')
    equal((await server.get('/projects')).body.items.map((p) => p.name), ['default'])
})
