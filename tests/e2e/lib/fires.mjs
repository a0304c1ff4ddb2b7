// SPDX-License-Identifier: Apache-2.0
//
// fires.mjs -- holds a schedule's fires to a model of when it fires.
//
// The model knows only periods of whole seconds: every second, every second one, every
// so many milliseconds from an anchor.  That is enough to tell which fire times there
// were from the making of a schedule to its end, and each must have exactly one outcome.
import { check, equal } from './test.mjs'

// The store's clock is not ours, if only by a hair.
const CLOCKS_MS = 100

// The fire times in (from, to], in milliseconds.
export function fireTimes(periodMs, anchorMs, from, to) {
    const times = []
    let at = anchorMs + Math.ceil((from + 1 - anchorMs) / periodMs) * periodMs
    for (; at <= to; at += periodMs) times.push(at)
    return times
}

// All of something that comes in pages.
export async function allPages(server, path) {
    const all = []
    for (let cursor = ''; cursor !== null; ) {
        const page = (await server.get(`${path}${path.includes('?') ? '&' : '?'}limit=1000${cursor && `&cursor=${cursor}`}`)).body
        all.push(...page.items)
        cursor = page.nextCursor
    }
    return all
}

// Pauses it, which deals with all that is due, and checks: every fire time up to then has
// one outcome, and each that ran has one job.  The schedule must make jobs of a kind of its
// own.  Answers with how many fire times had which outcome.
export async function checkFires(server, { id, periodMs, anchorMs = 0 }) {
    const asked = Date.now() - CLOCKS_MS
    const paused = (await server.post(`/schedules/${id}/pause`)).body
    const fires = (await allPages(server, `/schedules/${id}/fires`)).reverse()
    const last = Date.parse(fires.at(-1)?.lastAt ?? paused.createdAt)
    const expected = fireTimes(periodMs, anchorMs, Date.parse(paused.createdAt), Math.max(asked, last))
    const outcomes = {}
    let next = 0
    for (const fire of fires) {
        const covered = expected.slice(next, next + fire.count)
        equal([fire.fireAt, fire.lastAt], [covered[0], covered.at(-1)].map((ms) => ms && new Date(ms).toISOString()),
            `fire times are not contiguous after ${next} of them: ${JSON.stringify(fire)}`)
        equal([fire.jobId !== null, fire.outcome === 'ran' ? fire.count : 1], [fire.outcome === 'ran', 1])
        outcomes[fire.outcome] = (outcomes[fire.outcome] ?? 0) + fire.count
        next += fire.count
    }
    equal(next, expected.length, `${expected.length - next} fire times of schedule ${id} have no outcome`)
    equal(paused.fireCount, next)
    const jobs = (await allPages(server, `/jobs?kind=${paused.kind}`)).filter((j) => j.retryOf === null)
    const ran = fires.filter((f) => f.outcome === 'ran').map((f) => f.jobId)
    equal(jobs.map((j) => j.id).sort(), ran.sort(), 'one job for each fire that ran, and no other')
    check(jobs.every((j) => j.scheduleId === id), 'they name their schedule')
    return outcomes
}
