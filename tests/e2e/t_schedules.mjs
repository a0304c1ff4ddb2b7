// SPDX-License-Identifier: Apache-2.0
//
// Schedules over HTTP: made, shown, changed, paused, triggered, previewed; who may; and
// what is answered to what is wrong.
import { randomBytes } from 'node:crypto'

import { readMetrics } from './lib/metrics.mjs'
import { sql, startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const newYear = { cron: '0 3 1 1 *' } // never during a test
const make = async (server, more = {}) =>
    (await server.post('/schedules', { name: 'yearly', kind: 'report', ...newYear, ...more })).body

test('a schedule is made, shown, listed and deleted', async (t) => {
    const server = await startServer(t)
    const { status, body } = await server.post('/schedules', { name: 'yearly', kind: 'report', ...newYear, timeZone: 'Europe/Berlin' })
    equal(status, 201)
    const { id, createdAt, changedAt, nextFireAt, ...rest } = body
    equal(rest, {
        name: 'yearly', project: 'default', cron: '0 3 1 1 *', timeZone: 'Europe/Berlin', everyMs: null, startAt: null,
        endAt: null, jitterMs: 0, overlap: 'skip', misfire: 'once', status: 'active', problem: null, paused: false,
        pausedWithProject: false, pausedUntil: null, pausedReason: null, lastFireAt: null, lastJobId: null, fireCount: 0,
        queue: null, metadata: null, uniqueKey: null, retryDelaysSeconds: null, maxExecutionTimeMs: null, expireMs: null,
        priority: null, maxRetries: null, onCrash: null, kind: 'report', payload: null, endpointId: null,
    })
    equal(createdAt, changedAt)
    check(nextFireAt.endsWith('-01-01T02:00:00.000Z'), nextFireAt)
    equal((await server.get(`/schedules/${id}`)).body, body)
    equal((await server.get('/schedules')).body, { items: [body], nextCursor: null })
    equal((await server.get(`/schedules/${id}/fires`)).body, { items: [], nextCursor: null })
    equal((await server.del(`/schedules/${id}`)).status, 204)
    equal((await server.get('/schedules')).body.items, [])
    for (const [method, path] of [['GET', ''], ['DELETE', ''], ['GET', '/fires'], ['GET', '/preview'], ['POST', '/pause'], ['POST', '/resume'], ['POST', '/trigger']])
        has((await server.refused(404, method, `/schedules/${id}${path}`)).detail, `no schedule ${id}`)
    await server.refused(404, 'PATCH', `/schedules/${id}`, { kind: 'x' })
    await server.refused(404, 'GET', '/schedules/yearly')
})

test('all that a job can be given is kept, and the job has it', async (t) => {
    const server = await startServer(t)
    await server.post('/projects', { name: 'shop' })
    const job = {
        queue: 'slow', metadata: { customer: '42' }, uniqueKey: 'report', retryDelaysSeconds: [5, 50], maxExecutionTimeMs: 7000,
        priority: 8, maxRetries: 2, onCrash: 'fail', kind: 'report', payload: { a: [1, 2.50] },
    }
    const given = {
        name: 'all.of_it-1', project: 'shop', everyMs: 86400000, startAt: '2030-01-01T00:00:00+01:00', endAt: '2031-01-01T00:00:00Z',
        jitterMs: 500, overlap: 'queue', misfire: 'all', expireMs: 60000, ...job,
    }
    const made = (await server.post('/schedules', given)).body
    for (const name of Object.keys(given))
        equal(made[name], name === 'startAt' ? '2029-12-31T23:00:00.000Z' : name === 'endAt' ? '2031-01-01T00:00:00.000Z' : given[name])
    equal(made.nextFireAt, '2029-12-31T23:00:00.000Z')
    const { status, body } = await server.post(`/schedules/${made.id}/trigger`)
    equal([status, body.scheduleId, body.project], [201, made.id, 'shop'])
    for (const name of Object.keys(job).filter((n) => n !== 'retryDelaysSeconds')) equal(body[name], job[name])
    check(Date.parse(body.expiresAt) - Date.parse(body.createdAt) === 60000, `${body.createdAt} ${body.expiresAt}`)
    equal((await server.get(`/jobs/${body.id}`)).body.scheduleId, made.id)
    equal((await server.get(`/jobs/${await server.enqueue('k')}`)).body.scheduleId, null)
    const jobs = async (query) => (await server.get(`/jobs?${query}`)).body.items.map((j) => j.id)
    equal(await jobs(`schedule=${made.id}`), [body.id])
    equal(await jobs(`schedule=${made.id}&state=completed`), [])
    equal(await jobs(`schedule=${made.id}&state=queued&kind=report&q=2.5`), [body.id])
    equal(await jobs('schedule=1'), [])
    for (const wrong of ['x', '0', '-1', '1.5', '']) equal((await server.refused(400, 'GET', `/jobs?schedule=${wrong}`)).field, 'schedule')
    equal((await server.post('/jobs/cancel', { schedule: made.id, dryRun: true })).body.matched, 1)
    // (a project's name is not taken for another's)
    equal((await server.get('/schedules?project=shop')).body.items.length, 1)
    equal((await server.get('/schedules?project=default')).body.items.length, 0)
    await server.refused(404, 'GET', '/schedules?project=nothing')
    await server.refused(404, 'POST', '/schedules', { ...given, project: 'nothing' })
})

test('what is given changes and null puts the default back', async (t) => {
    const server = await startServer(t)
    const made = await make(server, { timeZone: 'Europe/Berlin', payload: { a: 1 }, priority: 7, maxRetries: 0, queue: 'q', jitterMs: 9 })
    const patch = async (body) => (await server.patch(`/schedules/${made.id}`, body)).body
    const changed = await patch({ name: 'renamed', payload: [1], priority: null, queue: null, jitterMs: null })
    const { changedAt } = changed
    check(changedAt > made.changedAt)
    equal(changed, { ...made, name: 'renamed', payload: [1], priority: null, queue: null, jitterMs: 0, changedAt })
    equal((await patch({ payload: null })).payload, null)
    // An interval takes the place of the expression, and the other way round; the zone stays.
    const every = await patch({ everyMs: 3600000 })
    equal([every.cron, every.everyMs, every.timeZone], [null, 3600000, 'Europe/Berlin'])
    const cron = await patch({ cron: '@yearly' })
    equal([cron.cron, cron.everyMs, cron.timeZone], ['@yearly', null, 'Europe/Berlin'])
    check(cron.nextFireAt.endsWith('-12-31T23:00:00.000Z'), cron.nextFireAt)
    const utc = await patch({ timeZone: null })
    equal([utc.timeZone, utc.cron], ['UTC', '@yearly'])
    check(utc.nextFireAt.endsWith('-01-01T00:00:00.000Z'), utc.nextFireAt)
    const byHand = await patch({ cron: null })
    equal([byHand.cron, byHand.everyMs, byHand.status, byHand.nextFireAt], [null, null, 'active', null])
    equal((await server.get(`/schedules/${made.id}/preview`)).body.times, [])
    for (const body of [{}, '', '[]', '{', { name: null }, { kind: null }, { project: 'x' }, { paused: true }, { status: 'active' }])
        await server.refused(400, 'PATCH', `/schedules/${made.id}`, body)
    equal((await server.refused(400, 'PATCH', `/schedules/${made.id}`, { misfire: 'all' })).field, 'misfire')
    equal((await patch({ misfire: 'all', overlap: 'queue' })).misfire, 'all')
    equal((await server.refused(400, 'PATCH', `/schedules/${made.id}`, { overlap: null })).field, 'misfire')
})

test('what is wrong is told with the field', async (t) => {
    const server = await startServer(t)
    const bad = [
        [{ name: undefined }, 'name'], [{ name: null }, 'name'], [{ name: '' }, 'name'], [{ name: 'a b' }, 'name'], [{ name: 5 }, 'name'],
        [{ name: 'x'.repeat(101) }, 'name'], [{ kind: undefined }, 'kind'], [{ kind: 'a b' }, 'kind'],
        [{ cron: '61 * * * *' }, 'cron'], [{ cron: '* * * *' }, 'cron'], [{ cron: '@reboot' }, 'cron'], [{ cron: 5 }, 'cron'],
        [{ cron: '' }, 'cron'], [{ cron: '0 0 30 2 *' }, 'cron'], [{ cron: `${'1,'.repeat(400)}1 * * * *` }, 'cron'],
        [{ timeZone: 'Mars/Olympus' }, 'timeZone'], [{ timeZone: '../etc/passwd' }, 'timeZone'], [{ timeZone: '' }, 'timeZone'], [{ timeZone: 1 }, 'timeZone'],
        [{ everyMs: 5000 }, 'everyMs'], [{ cron: null, everyMs: 999 }, 'everyMs'], [{ cron: null, everyMs: 31622400001 }, 'everyMs'],
        [{ cron: null, everyMs: 1500.5 }, 'everyMs'], [{ cron: null, everyMs: '5000' }, 'everyMs'], [{ cron: null, everyMs: 0 }, 'everyMs'],
        [{ startAt: 'tomorrow' }, 'startAt'], [{ startAt: 5 }, 'startAt'], [{ startAt: '2030-01-01T00:00:00' }, 'startAt'],
        [{ startAt: '2030-01-02T00:00:00Z', endAt: '2030-01-01T00:00:00Z' }, 'endAt'], [{ endAt: '2020-01-01T00:00:00Z' }, 'endAt'],
        [{ jitterMs: -1 }, 'jitterMs'], [{ jitterMs: 86400001 }, 'jitterMs'], [{ overlap: 'never' }, 'overlap'], [{ overlap: 1 }, 'overlap'],
        [{ misfire: 'often' }, 'misfire'], [{ misfire: 'all' }, 'misfire'], [{ misfire: true }, 'misfire'],
        [{ queue: 'a b' }, 'queue'], [{ metadata: 'x' }, 'metadata'], [{ metadata: { a: 1 } }, 'metadata'], [{ uniqueKey: '' }, 'uniqueKey'],
        [{ uniqueKey: 'x'.repeat(501) }, 'uniqueKey'], [{ retryDelaysSeconds: [] }, 'retryDelaysSeconds'], [{ retryDelaysSeconds: [-1] }, 'retryDelaysSeconds'],
        [{ maxExecutionTimeMs: 0 }, 'maxExecutionTimeMs'], [{ maxExecutionTimeMs: 604800001 }, 'maxExecutionTimeMs'], [{ expireMs: 0 }, 'expireMs'],
        [{ priority: 0 }, 'priority'], [{ priority: 10 }, 'priority'], [{ maxRetries: 101 }, 'maxRetries'], [{ onCrash: 'weep' }, 'onCrash'],
        [{ project: 'a b' }, 'project'], [{ paused: 'yes' }, 'paused'], [{ colour: 'red' }, 'colour'], [{ status: 'active' }, 'status'],
        [{ kind: 'http' }, 'payload'], [{ kind: 'http', payload: { url: 'nothing' } }, 'payload.url'],
        [{ kind: 'http', payload: { url: 'http://a/' }, maxExecutionTimeMs: 1800001 }, 'maxExecutionTimeMs'],
    ]
    for (const [body, field] of bad) {
        const problem = await server.refused(400, 'POST', '/schedules', { name: 'a', kind: 'k', ...newYear, ...body })
        check(problem.field === field, `${JSON.stringify(body).slice(0, 100)}: ${problem.detail}`)
    }
    for (const body of ['', '[]', '{', '{"name":"a","name":"b"}']) await server.refused(400, 'POST', '/schedules', body)
    equal((await server.refused(413, 'POST', '/schedules', { name: 'a', kind: 'k', ...newYear, payload: 'x'.repeat(1100000) })).field, 'payload')
    equal((await server.get('/schedules')).body.items, [])
    for (const query of ['limit=0', 'limit=1001', 'cursor=x', 'colour=red', 'name=a%20b', 'project='])
        await server.refused(400, 'GET', `/schedules?${query}`)
    const { id } = await make(server)
    for (const path of ['fires?limit=0', 'fires?cursor=x', 'fires?x=1', 'preview?count=0', 'preview?count=1001', 'preview?from=now', 'preview?x=1'])
        await server.refused(400, 'GET', `/schedules/${id}/${path}`)
    for (const body of [{ reason: 5 }, { reason: 'x'.repeat(501) }, { until: 'later' }, { until: '2020-01-01T00:00:00Z' }, { why: 'x' }])
        await server.refused(400, 'POST', `/schedules/${id}/pause`, body)
    await server.refused(400, 'POST', `/schedules/${id}/resume`, { reason: 'x' })
    await server.refused(400, 'POST', `/schedules/${id}/trigger`, { now: true })
})

test('a name is there once in a project', async (t) => {
    const server = await startServer(t)
    await server.post('/projects', { name: 'shop' })
    const first = await make(server)
    const problem = await server.refused(409, 'POST', '/schedules', { name: 'yearly', kind: 'other', ...newYear })
    equal(problem.field, 'name')
    has(problem.detail, first.id)
    const second = await make(server, { project: 'shop' })
    const other = await make(server, { name: 'other' })
    has((await server.refused(409, 'PATCH', `/schedules/${other.id}`, { name: 'yearly' })).detail, first.id)
    equal((await server.patch(`/schedules/${first.id}`, { name: 'yearly', priority: 3 })).body.priority, 3)
    const ids = async (query) => (await server.get(`/schedules?${query}`)).body.items.map((s) => s.id)
    equal(await ids('name=yearly'), [first.id, second.id])
    equal(await ids('name=yearly&project=shop'), [second.id])
    equal(await ids('name=nothing'), [])
})

test('schedules are listed page by page, oldest first', async (t) => {
    const server = await startServer(t)
    const made = []
    for (let i = 0; i < 57; i++) made.push((await make(server, { name: `s${i}` })).id)
    equal((await server.get('/schedules?limit=57')).body.nextCursor, null)
    equal((await server.get('/schedules?limit=56')).body.nextCursor, made[55])
    const seen = []
    let cursor = ''
    for (let pages = 1; cursor !== null; pages++) {
        const { items, nextCursor } = (await server.get(`/schedules?limit=25${cursor && `&cursor=${cursor}`}`)).body
        check(items.length <= 25 && pages <= 3, 'three pages')
        seen.push(...items.map((s) => s.id))
        cursor = nextCursor
    }
    equal(seen, made)
})

test('a page of large schedules ends where it gets too much', async (t) => {
    const server = await startServer(t)
    const payload = 'x'.repeat(1000000)
    const made = []
    for (let i = 0; i < 11; i++) made.push((await make(server, { name: `s${i}`, payload })).id)
    const first = (await server.get('/schedules?limit=1000')).body
    check(first.items.length < 11 && first.items.length > 7, `${first.items.length} on a page`)
    const rest = (await server.get(`/schedules?limit=1000&cursor=${first.nextCursor}`)).body
    equal([...first.items, ...rest.items].map((s) => s.id), made)
    equal(rest.nextCursor, null)
})

test('a preview shows what the clocks show', async (t) => {
    const server = await startServer(t)
    const preview = async (body) => (await server.post('/schedules/preview', body)).body
    const gap = { cron: '30 2 * * *', timeZone: 'Europe/Berlin', from: '2026-03-28T00:00:00Z', count: 3 }
    equal(await preview(gap), {
        timeZone: 'Europe/Berlin',
        times: [
            { at: '2026-03-28T01:30:00.000Z', local: '2026-03-28T02:30:00.000+01:00' },
            { at: '2026-03-29T01:00:00.000Z', local: '2026-03-29T03:00:00.000+02:00' },
            { at: '2026-03-30T00:30:00.000Z', local: '2026-03-30T02:30:00.000+02:00' },
        ],
    })
    equal((await preview({ cron: '0 0 * * *', timeZone: 'America/St_Johns', from: '2026-07-01T00:00:00Z', count: 1 })).times,
        [{ at: '2026-07-01T02:30:00.000Z', local: '2026-07-01T00:00:00.000-02:30' }])
    const from = '2026-01-01T00:00:00Z'
    equal((await preview({ everyMs: 90000, from, count: 2 })).times.map((x) => x.at), ['2026-01-01T00:01:30.000Z', '2026-01-01T00:03:00.000Z'])
    equal((await preview({ everyMs: 90000, startAt: '2026-01-01T00:00:10Z', endAt: '2026-01-01T00:02:00Z', from })).times.map((x) => x.at),
        ['2026-01-01T00:00:10.000Z', '2026-01-01T00:01:40.000Z'])
    equal((await preview({ cron: '* * * * *' })).times.length, 10)
    equal((await preview({ cron: '* * * * * *', count: 1000 })).times.length, 1000)
    const { id } = await make(server, { cron: gap.cron, timeZone: gap.timeZone })
    equal((await server.get(`/schedules/${id}/preview?from=${gap.from}&count=3`)).body, await preview(gap))
    const ahead = (await server.get(`/schedules/${id}/preview?count=1`)).body.times[0].at
    equal(ahead, (await server.get(`/schedules/${id}`)).body.nextFireAt)
    const bad = [
        [{}, 'cron'], [{ cron: null }, 'cron'], [{ cron: 'x' }, 'cron'], [{ cron: '@daily', everyMs: 5000 }, 'everyMs'], [{ everyMs: 1 }, 'everyMs'],
        [{ cron: '@daily', timeZone: 'X/Y' }, 'timeZone'], [{ cron: '@daily', count: 0 }, 'count'], [{ cron: '@daily', from: 'x' }, 'from'],
        [{ cron: '@daily', name: 'x' }, 'name'], [{ cron: '0 0 31 2 *' }, 'cron'],
        [{ cron: '@daily', startAt: '2027-01-01T00:00:00Z', endAt: '2026-01-01T00:00:00Z' }, 'endAt'],
    ]
    for (const [body, field] of bad) equal((await server.refused(400, 'POST', '/schedules/preview', body)).field, field)
})

test('a job is made for every fire time, and each has its outcome', async (t) => {
    const server = await startServer(t)
    const made = await make(server, { cron: '* * * * * *', overlap: 'queue' })
    const fires = await until('three have fired', async () => {
        const { items } = (await server.get(`/schedules/${made.id}/fires`)).body
        return items.length >= 3 && items
    })
    for (const [i, fire] of fires.entries()) {
        equal([fire.outcome, fire.reason, fire.count, fire.lastAt], ['ran', null, 1, fire.fireAt])
        const job = (await server.get(`/jobs/${fire.jobId}`)).body
        equal([job.scheduleId, job.kind, job.runAt], [made.id, 'report', fire.fireAt])
        if (i > 0) equal(Date.parse(fires[i - 1].fireAt) - Date.parse(fire.fireAt), 1000)
    }
    await server.post(`/schedules/${made.id}/pause`)
    const all = (await server.get(`/schedules/${made.id}/fires?limit=1000`)).body.items
    const metrics = await until('the figures have come', async () => {
        const { values } = readMetrics((await server.fetch('GET', '/metrics')).text)
        return values.get('holdfast_fires_total{outcome="ran"}') === all.length && values
    })
    equal([metrics.get('holdfast_fires_total{outcome="missed"}'), metrics.get('holdfast_fire_lateness_seconds_count')], [0, all.length])
    const shown = (await server.get(`/schedules/${made.id}`)).body
    equal([shown.fireCount, shown.lastFireAt, shown.lastJobId], [all.length, all[0].fireAt, all[0].jobId])
    const paged = []
    for (let cursor = ''; cursor !== null; ) {
        const page = (await server.get(`/schedules/${made.id}/fires?limit=2${cursor && `&cursor=${cursor}`}`)).body
        paged.push(...page.items)
        cursor = page.nextCursor
    }
    equal(paged, all)
})

test('while one of its jobs is live, fire times are skipped', async (t) => {
    const server = await startServer(t)
    const made = await make(server, { cron: '* * * * * *' })
    const items = await until('two were skipped', async () => {
        const page = (await server.get(`/schedules/${made.id}/fires`)).body.items
        return page.filter((f) => f.outcome === 'skipped').reduce((n, f) => n + f.count, 0) >= 2 && page
    })
    equal([items.at(-1).outcome, items[0].reason, items[0].jobId], ['ran', 'overlap', null])
    const live = items.at(-1).jobId
    const again = await server.post(`/schedules/${made.id}/trigger`)
    equal([again.status, again.body.id], [200, live])
    await server.post(`/jobs/${live}/cancel`)
    await until('the next one runs', async () => (await server.get(`/schedules/${made.id}`)).body.lastJobId !== live)
})

test('a schedule is paused, for a while or until it is resumed', async (t) => {
    const server = await startServer(t)
    const made = await make(server, { cron: '* * * * * *', overlap: 'queue', paused: true })
    equal([made.paused, made.status, made.nextFireAt, made.pausedReason], [true, 'paused', null, null])
    const later = (await server.post(`/schedules/${made.id}/pause`, { reason: 'move', until: '2100-01-01T00:00:00Z' })).body
    equal([later.pausedReason, later.pausedUntil, later.nextFireAt], ['move', '2100-01-01T00:00:00.000Z', null])
    const { status, body: job } = await server.post(`/schedules/${made.id}/trigger`) // also now
    equal([status, job.scheduleId], [201, made.id])
    const second = Math.ceil(Date.now() / 1000) * 1000
    await until('a fire time has passed', () => Date.now() > second + 100)
    const resumed = (await server.post(`/schedules/${made.id}/resume`)).body
    equal([resumed.paused, resumed.status, resumed.pausedUntil, resumed.pausedReason], [false, 'active', null, null])
    const fires = await until('it fires', async () => {
        const { items } = (await server.get(`/schedules/${made.id}/fires`)).body
        return items.some((f) => f.outcome === 'ran') && items
    })
    const first = fires.at(-1)
    equal([first.outcome, first.reason, first.jobId], ['skipped', 'paused', null])
    check(first.fireAt > made.createdAt && first.lastAt <= resumed.changedAt, JSON.stringify(first))
    const until_ = new Date(Date.now() + 4000).toISOString()
    await server.post(`/schedules/${made.id}/pause`, { until: until_ })
    const back = await until('it goes on by itself', async () => {
        const { body } = await server.get(`/schedules/${made.id}`)
        return !body.paused && body
    })
    equal([back.status, back.pausedUntil], ['active', null])
    check(Date.now() >= Date.parse(until_), 'not before its time')
    await server.post(`/schedules/${made.id}/pause`)
})

test('a schedule that has ended says so', async (t) => {
    const server = await startServer(t)
    const endAt = new Date(Date.now() + 5000).toISOString()
    const made = await make(server, { cron: '* * * * * *', overlap: 'queue', endAt })
    const ended = await until('it has ended', async () => {
        const { body } = await server.get(`/schedules/${made.id}`)
        return body.status === 'ended' && body
    })
    equal(ended.nextFireAt, null)
    check(ended.fireCount >= 1 && ended.lastFireAt <= endAt, ended.lastFireAt)
    equal((await server.get(`/schedules/${made.id}/preview`)).body.times, [])
})

test('a schedule whose zone is gone says so, and goes on in another', async (t) => {
    const server = await startServer(t)
    const { id } = await make(server, { cron: '* * * * * *', timeZone: 'Europe/Berlin', overlap: 'queue' })
    sql(server.store, `UPDATE schedules SET time_zone = 'Gone/Zone' WHERE id = ${id}`)
    const stalled = await until('it is stalled', async () => {
        const { body } = await server.get(`/schedules/${id}`)
        return body.status === 'stalled' && body
    })
    equal(stalled.nextFireAt, null)
    has(stalled.problem, 'Gone/Zone')
    has((await server.refused(409, 'GET', `/schedules/${id}/preview`)).detail, 'Gone/Zone')
    equal((await server.patch(`/schedules/${id}`, { priority: 3 })).body.status, 'stalled')
    const mended = (await server.patch(`/schedules/${id}`, { timeZone: null })).body
    equal([mended.status, mended.problem, mended.timeZone], ['active', null, 'UTC'])
    const { fireCount } = mended
    await until('it fires', async () => (await server.get(`/schedules/${id}`)).body.fireCount > fireCount)
})

test('deleting a schedule leaves its jobs alone', async (t) => {
    const server = await startServer(t)
    const made = await make(server)
    const job = (await server.post(`/schedules/${made.id}/trigger`)).body
    await server.del(`/schedules/${made.id}`)
    const left = (await server.get(`/jobs/${job.id}`)).body
    equal([left.state, left.scheduleId], ['queued', made.id])
    const again = await make(server)
    check(again.id !== made.id)
})

test('who may do what with schedules', async (t) => {
    const admin = randomBytes(16).toString('hex')
    const server = await startServer(t, { env: { HOLDFAST_ADMIN_TOKEN: admin } })
    await until('it has read its tokens', async () => (await server.fetch('GET', '/api/v1/queues')).status === 401)
    server.token = admin
    await server.post('/projects', { name: 'shop' })
    const mine = await make(server, { project: 'shop' })
    const theirs = await make(server)
    const token = async (role, project) => (await server.post('/tokens', { name: role, role, ...(project && { project }) })).body.token
    const tokens = { viewer: await token('viewer'), producer: await token('producer'), operator: await token('operator'), bound: await token('producer', 'shop') }
    const changes = [['POST', '/schedules', { name: 'b', kind: 'k', ...newYear }], ['PATCH', `/schedules/${mine.id}`, { priority: 1 }],
        ['POST', `/schedules/${mine.id}/pause`, {}], ['POST', `/schedules/${mine.id}/resume`, {}], ['POST', `/schedules/${mine.id}/trigger`, {}],
        ['DELETE', `/schedules/${mine.id}`]]
    server.token = null
    await server.refused(401, 'GET', '/schedules')
    for (const role of ['viewer', 'producer', 'bound']) {
        server.token = tokens[role]
        for (const [method, path, body] of changes) await server.refused(403, method, path, body)
        await server.get(`/schedules/${mine.id}`)
        await server.get(`/schedules/${mine.id}/fires`)
        await server.get(`/schedules/${mine.id}/preview`)
        await server.post('/schedules/preview', { cron: '@daily' })
    }
    server.token = tokens.bound
    equal((await server.get('/schedules')).body.items.map((s) => s.id), [mine.id])
    equal((await server.get('/schedules?project=shop')).body.items.length, 1)
    await server.refused(403, 'GET', '/schedules?project=default')
    for (const path of ['', '/fires', '/preview']) await server.refused(404, 'GET', `/schedules/${theirs.id}${path}`)
    server.token = tokens.viewer
    equal((await server.get('/schedules')).body.items.length, 2)
    server.token = tokens.operator
    for (const [method, path, body] of changes) check((await server.fetch(method, `/api/v1${path}`, body)).status < 300, `${method} ${path}`)
    server.token = admin
})
