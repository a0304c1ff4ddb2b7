// SPDX-License-Identifier: Apache-2.0
//
// Schedules over kill -9: the server dies around fire times, again and again, and every
// fire time still has exactly one outcome, every one that ran exactly one job.
import { startServer } from './lib/server.mjs'
import { checkFires } from './lib/fires.mjs'
import { startTarget } from './lib/target.mjs'
import { check, equal, note, test, until } from './lib/test.mjs'

const ROUNDS = 12

const makeAll = async (server, target) => {
    const http = { kind: 'http', payload: { url: target.url('/ok') } }
    const wanted = [
        { name: 'each', cron: '* * * * * *', overlap: 'queue', misfire: 'all', periodMs: 1000 },
        { name: 'once', cron: '* * * * * *', overlap: 'queue', periodMs: 1000 },
        { name: 'none', cron: '*/2 * * * * *', overlap: 'queue', misfire: 'skip', periodMs: 2000 },
        { name: 'busy', cron: '* * * * * *', periodMs: 1000 }, // its one job waits for a worker
        { name: 'runs', everyMs: 1000, ...http, periodMs: 1000, anchored: true },
    ]
    const made = []
    for (const { periodMs, anchored, ...body } of wanted) {
        const schedule = (await server.post('/schedules', { kind: `kind-${body.name}`, ...body })).body
        made.push({ ...schedule, periodMs, anchorMs: anchored ? Date.parse(schedule.createdAt) : 0 })
    }
    return made
}

// The moment of a kill: this far from a whole second.
const around = (ms) => {
    const second = Math.ceil((Date.now() + 100) / 1000) * 1000
    return until('the moment has come', () => Date.now() >= second + ms)
}

test('every fire time has one outcome and one job, whenever the server is killed', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { settings: { misfire_grace_ms: 1000 } })
    const schedules = await makeAll(server, target)
    for (let round = 0; round < ROUNDS; round++) {
        await around(Math.random() * 60 - 30)
        await server.kill()
        if (round % 4 === 3) await around(1900) // long enough to be late
        await server.start()
        const seen = (await server.get(`/schedules/${schedules[0].id}`)).body.fireCount
        await until('it fires again', async () => (await server.get(`/schedules/${schedules[0].id}`)).body.fireCount > seen)
    }
    const totals = {}
    for (const schedule of schedules) {
        const outcomes = await checkFires(server, schedule)
        note(`${schedule.name}: ${JSON.stringify(outcomes)}`)
        for (const [outcome, count] of Object.entries(outcomes)) totals[outcome] = (totals[outcome] ?? 0) + count
    }
    for (const outcome of ['ran', 'skipped', 'missed']) check(totals[outcome] > 0, `nothing ${outcome}: ${JSON.stringify(totals)}`)
})

test('a schedule that is changed while the server dies has the old words or the new ones', async (t) => {
    const server = await startServer(t)
    const { id } = (await server.post('/schedules', { name: 'a', kind: 'k', cron: '* * * * * *', overlap: 'queue' })).body
    let acknowledged = 0
    for (let round = 1; round <= 6; round++) {
        await around(-5)
        const answer = server.fetch('PATCH', `/api/v1/schedules/${id}`, { payload: round }).then((a) => a.status === 200, () => false)
        const wait = Math.random() * 12
        const begun = performance.now()
        await until('the moment has come', () => performance.now() - begun >= wait)
        await server.kill()
        if (await answer) acknowledged = round
        await server.start()
        const { payload } = (await server.get(`/schedules/${id}`)).body
        check((payload ?? 0) === acknowledged || payload === round, `${payload} is neither ${acknowledged} nor ${round}`)
        acknowledged = payload ?? 0
    }
    await checkFires(server, { id, periodMs: 1000 })
})

test('a server that was stopped for a while accounts for what passed meanwhile', async (t) => {
    const target = await startTarget(t)
    const server = await startServer(t, { settings: { misfire_grace_ms: 1000, lease_ms: 2000 } })
    const schedules = await makeAll(server, target)
    for (const seconds of [1, 4, 2]) {
        await around(Math.random() * 40)
        server.child.kill('SIGSTOP')
        await around(seconds * 1000)
        server.child.kill('SIGCONT')
        const seen = (await server.get(`/schedules/${schedules[0].id}`)).body.fireCount
        await until('it fires again', async () => (await server.get(`/schedules/${schedules[0].id}`)).body.fireCount > seen)
    }
    for (const schedule of schedules) note(`${schedule.name}: ${JSON.stringify(await checkFires(server, schedule))}`)
})

test('a schedule that was acknowledged is there after kill -9, and one that was deleted is not', async (t) => {
    const server = await startServer(t)
    const names = []
    for (let round = 0; round < 3; round++) {
        const made = (await server.post('/schedules', { name: `s${round}`, kind: 'k', cron: '0 3 1 1 *' })).body
        names.push(made.name)
        const gone = (await server.post('/schedules', { name: 'gone', kind: 'k', cron: '0 3 1 1 *' })).body
        await server.del(`/schedules/${gone.id}`)
        await server.kill()
        await server.start()
        equal((await server.get('/schedules')).body.items.map((s) => s.name), names)
    }
})
