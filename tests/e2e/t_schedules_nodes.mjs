// SPDX-License-Identifier: Apache-2.0
// test: once
//
// Two nodes on one PostgreSQL fire the same schedules: each fire time has one outcome and
// one job, also when one of them is killed, stopped or wakes up late.
import { checkFires } from './lib/fires.mjs'
import { makeStore, startServer } from './lib/server.mjs'
import { check, note, test, until } from './lib/test.mjs'

const SCHEDULES = 20

async function two(t) {
    const store = makeStore(t)
    const settings = { lease_ms: 3000, misfire_grace_ms: 1000 }
    const a = await startServer(t, { store, settings: { ...settings, node: 'a' }, unchecked: true })
    const b = await startServer(t, { store, settings: { ...settings, node: 'b' } })
    return [a, b]
}

async function makeMany(server) {
    const made = []
    for (let i = 0; i < SCHEDULES; i++) {
        const policies = [{ overlap: 'queue', misfire: 'all' }, { overlap: 'queue', misfire: 'once' }, { overlap: 'queue', misfire: 'skip' }, {}]
        const body = { name: `s${i}`, kind: `k${i}`, cron: '* * * * * *', ...policies[i % 4] }
        made.push({ ...(await server.post('/schedules', body)).body, periodMs: 1000 })
    }
    return made
}

const count = async (server, id) => (await server.get(`/schedules/${id}`)).body.fireCount
async function fires(server, { id }, more = 2) {
    const seen = await count(server, id)
    await until('it fires', async () => (await count(server, id)) >= seen + more)
}

async function checkAll(server, schedules) {
    const totals = {}
    for (const schedule of schedules)
        for (const [outcome, n] of Object.entries(await checkFires(server, schedule))) totals[outcome] = (totals[outcome] ?? 0) + n
    note(JSON.stringify(totals))
    check(totals.ran > SCHEDULES, JSON.stringify(totals))
}

test('two nodes fire the same schedules, and one of them is killed again and again', async (t) => {
    const [a, b] = await two(t)
    const schedules = await makeMany(a)
    for (let round = 0; round < 6; round++) {
        const [victim, other] = round % 2 ? [a, b] : [b, a]
        const second = Math.ceil((Date.now() + 100) / 1000) * 1000 + Math.random() * 60 - 20
        await until('the moment has come', () => Date.now() >= second)
        await victim.kill()
        await fires(other, schedules[0])
        await victim.start()
        await fires(victim, schedules[1])
    }
    await checkAll(b, schedules)
})

test('a node that was stopped in the middle goes on without doing anything twice', async (t) => {
    const [a, b] = await two(t)
    const schedules = await makeMany(a)
    for (let round = 0; round < 3; round++) {
        const second = Math.ceil((Date.now() + 100) / 1000) * 1000 + Math.random() * 40
        await until('the moment has come', () => Date.now() >= second)
        a.child.kill('SIGSTOP')
        await fires(b, schedules[0], round === 2 ? 5 : 2) // the last one is longer than its lease
        a.child.kill('SIGCONT')
        await fires(a, schedules[1])
    }
    await checkAll(b, schedules)
})

test('both were away, and both come back at once', async (t) => {
    const [a, b] = await two(t)
    const schedules = await makeMany(a)
    await fires(a, schedules[0])
    await Promise.all([a.kill(), b.kill()])
    const gone = Date.now()
    await until('some have been missed', () => Date.now() > gone + 3000)
    await Promise.all([a.start(), b.start()])
    await fires(a, schedules[0])
    await checkAll(b, schedules)
})
