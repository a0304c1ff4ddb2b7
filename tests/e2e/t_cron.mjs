// SPDX-License-Identifier: Apache-2.0
// test: once
//
// `holdfast cron next`, and random expressions in random zones against two libraries
// that others use: croner and cron-parser.  Where they follow another rule than ours
// (docs/SCHEDULES.md), the difference has a name below, is as narrow as it can be, and
// must be met: a name that stands for nothing any more fails the test.
import { spawnSync } from 'node:child_process'

import { CronExpressionParser } from 'cron-parser'
import { Cron } from 'croner'

import { holdfast, run } from './lib/server.mjs'
import { check, equal, has, note, test } from './lib/test.mjs'

// ---- the command ----

test('fires are shown in local time and in UTC', async () => {
    const { code, stdout } = await run(['cron', 'next', '30 2 * * *', '--tz', 'Europe/Berlin',
        '--from', '2026-03-28T12:00:00+01:00', '-n', '2'])
    equal(code, 0)
    equal(stdout, 'LOCAL                                UTC\n' +
        'Sun 2026-03-29 03:00:00 +02:00 CEST  2026-03-29T01:00:00.000Z\n' +
        'Mon 2026-03-30 02:30:00 +02:00 CEST  2026-03-30T00:30:00.000Z\n')
    const west = await run(['cron', 'next', '@daily', '--tz', 'America/St_Johns', '--from', '2026-01-01T00:00:00Z', '-n', '1'])
    has(west.stdout, 'Thu 2026-01-01 00:00:00 -03:30 NST  2026-01-01T03:30:00.000Z')
    const wordless = await run(['cron', 'next', '@daily', '--tz', 'Asia/Kathmandu', '--from', '2026-01-01T00:00:00Z', '-n', '1'])
    has(wordless.stdout, 'Fri 2026-01-02 00:00:00 +05:45  2026-01-01T18:15:00.000Z')
    const old = await run(['cron', 'next', '0 12 * * *', '--tz', 'Africa/Monrovia', '--from', '1972-01-06T00:00:00Z', '-n', '1'])
    has(old.stdout, 'Thu 1972-01-06 12:00:00 -00:44:30 MMT  1972-01-06T12:44:30.000Z')
})

test('ten fires from now on in UTC are shown unless asked otherwise', async () => {
    const before = Date.now()
    const { stdout } = await run(['cron', 'next', '* * * * * *', '--json'])
    const fires = JSON.parse(stdout).map((time) => Date.parse(time))
    equal(fires.length, 10)
    check(fires[0] > before && fires[0] <= Date.now() + 1000, stdout)
    fires.forEach((time, i) => equal(time, fires[0] + i * 1000))
})

test('what never fires is said so', async () => {
    const people = await run(['cron', 'next', '0 0 30 2 *'])
    equal([people.code, people.stdout], [0, 'It never fires.\n'])
    const programs = await run(['cron', 'next', '0 0 30 2 *', '--json'])
    equal([programs.code, programs.stdout], [0, '[]\n'])
    const over = await run(['cron', 'next', '0 0 31 12 *', '--from', '9999-01-01T00:00:00Z'])
    equal(over.stdout.split('\n').slice(1), ['Fri 9999-12-31 00:00:00 +00:00 UTC  9999-12-31T00:00:00.000Z',
        'It never fires again.', ''])
})

test('what is wrong is one sentence and an exit code', async () => {
    for (const [code, part, ...args] of [
        [2, 'cron: the hour "25" is outside 0 to 23', 'next', '0 25 * * *'],
        [2, '"../etc/passwd" is no name of a time zone', 'next', '@daily', '--tz', '../etc/passwd'],
        [3, 'there is no time zone "Europe/Nowhere" on this machine', 'next', '@daily', '--tz', 'Europe/Nowhere'],
        [2, '--from is "tomorrow"; it takes a time with its offset', 'next', '@daily', '--from', 'tomorrow'],
        [2, 'between 1 and 100000', 'next', '@daily', '--count', '0'],
        [2, 'cron can show what is "next", not "last"', 'last', '@daily'],
        [2, 'needs more than that: holdfast cron', 'next'],
    ]) {
        const got = await run(['cron', ...args])
        equal([got.code, got.stdout], [code, ''])
        has(got.stderr, part)
        equal(got.stderr.trim().split('\n').length, 1)
    }
})

// ---- random expressions ----

// The same numbers in every run.
function makeRandom(seed) {
    const next = () => {
        seed = (seed + 0x6d2b79f5) | 0
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
    }
    const int = (least, most) => least + Math.floor(next() * (most - least + 1))
    return { int, chance: (p) => next() < p, pick: (list) => list[int(0, list.length - 1)] }
}

function makeField(random, least, most, star) {
    const { int, chance, pick } = random
    if (chance(star)) return '*'
    const a = int(least, most)
    const b = int(a, most)
    return pick([
        () => `${a}`,
        () => `${a}-${b}`,
        () => `${a}-${b}/${int(1, Math.max(b - a, 1))}`,
        () => `*/${int(1, Math.min(most - least, 20))}`,
        () => [...new Set([a, b, int(least, most)])].join(','),
        () => (b + 2 <= most ? `${a}-${b},${int(b + 2, most)}` : `${a}`),
    ])()
}

function makeExpression(random) {
    const { chance, pick } = random
    const fields = [
        chance(0.3) ? pick(['0', '30', '*/30', '0,30']) : makeField(random, 0, 59, 0.2),
        chance(0.3) ? pick(['0', '1', '2', '2,3', '0-3']) : makeField(random, 0, 23, 0.3),
        chance(0.1) ? 'L' : makeField(random, 1, 31, 0.6),
        makeField(random, 1, 12, 0.8),
        chance(0.15) ? pick(['5L', '1#1', '3#2', 'sunL', 'SAT#3']) : makeField(random, 0, 6, 0.6),
    ]
    if (chance(0.2)) fields.unshift(makeField(random, 0, 59, 0.1))
    return fields.join(' ')
}

// Zones whose clocks do the same in every edition of the data from 2022 on.
const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Europe/Dublin', 'Asia/Kolkata',
    'America/Sao_Paulo', 'Pacific/Auckland', 'Antarctica/Troll', 'America/Havana']
const firstYear = 2015
const lastYear = 2030
const hour = 3_600_000

// When the clocks of a zone change, from the platform's own data.
function changesOf(zone) {
    const format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' })
    const offset = (ms) => format.formatToParts(ms).find((part) => part.type === 'timeZoneName').value
    const changes = []
    let low = Date.UTC(firstYear, 0, 1)
    for (const end = Date.UTC(lastYear + 3, 0, 1); low < end; low += 7 * 24 * hour) {
        let [a, b] = [low, low + 7 * 24 * hour]
        const before = offset(a)
        if (before === offset(b)) continue
        while (b - a > 60_000) {
            const middle = a + Math.round((b - a) / 120_000) * 60_000
            if (offset(middle) === before) a = middle
            else b = middle
        }
        changes.push(b)
    }
    return changes
}

function ours({ expression, zone, from }) {
    const { stdout, stderr } = spawnSync(holdfast, ['cron', 'next', expression, '--tz', zone, '--from', from,
        '--count', String(count), '--json'], { encoding: 'utf8' })
    check(stderr === '', stderr)
    return JSON.parse(stdout)
}

const count = 40
const fieldsOf = (expression) => {
    const fields = expression.split(' ')
    return fields.length === 6 ? fields : ['0', ...fields]
}
const begins = (field) => field.startsWith('*')
const dayFields = ({ expression }) => [fieldsOf(expression)[3], fieldsOf(expression)[5]]
const isFixed = ({ expression }) => !begins(fieldsOf(expression)[1]) && !begins(fieldsOf(expression)[2])
const isSingle = ({ expression }) => fieldsOf(expression).slice(0, 3).every((field) => /^\d+$/.test(field))

const libraries = {
    croner({ expression, zone, from }) {
        // Vixie's rule for days is an option there: both, where one begins with a star.
        const both = dayFields({ expression }).some(begins)
        const cron = new Cron(expression, { timezone: zone, paused: true, domAndDow: both })
        return cron.nextRuns(count, new Date(from)).map((date) => date.toISOString())
    },
    'cron-parser'({ expression, zone, from }) {
        const all = []
        const cron = CronExpressionParser.parse(expression, { tz: zone, currentDate: new Date(from) })
        while (all.length < count) all.push(cron.next().toISOString())
        return all
    },
}

// Both lists without what is near a change of clocks; as far as both go.
function awayFromChanges(a, b, changes) {
    const last = [a, b].map((list) => list.at(-1) ?? '').sort()[0]
    const far = (list) => list.filter((time) => time <= last &&
        changes.every((change) => Math.abs(Date.parse(time) - change) > 3 * hour))
    return [far(a), far(b)]
}
const agree = (a, b) => JSON.stringify(a) === JSON.stringify(b)
const agreeAway = (it) => Array.isArray(it.theirs) && agree(...awayFromChanges(it.our, it.theirs, it.changes))

// Where a library has another rule.  `holds` is told the case, our fires, theirs (or
// their error), and when clocks change.
const differences = [
    {
        name: 'croner: only one time a day is a fixed time; a list of times follows real time where clocks change',
        library: 'croner',
        holds: (it) => isFixed(it) && !isSingle(it) && agreeAway(it),
    },
    {
        name: 'cron-parser: where clocks change, every schedule moves by the gap, and hours that are there twice count once',
        library: 'cron-parser',
        holds: (it) => agreeAway(it),
    },
    {
        name: 'cron-parser: a day matches if either field does, also where one is a star with a step',
        library: 'cron-parser',
        holds: (it) => dayFields(it).some((field) => begins(field) && field !== '*') && !dayFields(it).includes('*'),
    },
    {
        name: 'cron-parser: gives up where the clocks change by half an hour',
        library: 'cron-parser',
        holds: (it) => it.zone === 'Australia/Lord_Howe' && /loop limit/.test(it.theirs),
    },
    {
        name: 'cron-parser: refuses days that never come',
        library: 'cron-parser',
        holds: (it) => it.our.length === 0 && /Invalid explicit day of month|loop limit/.test(it.theirs),
    },
]

function answer(library, it) {
    try {
        return libraries[library](it)
    } catch (e) {
        return e.message
    }
}

function compare(it, met) {
    const our = ours(it)
    for (const library of Object.keys(libraries)) {
        const theirs = answer(library, it)
        if (agree(our, theirs)) {
            met.equal++
            continue
        }
        const known = differences.find((d) => d.library === library && d.holds({ ...it, our, theirs }))
        check(known, `${library}: ${it.expression} in ${it.zone} after ${it.from}:\n  ours ${our}\n  theirs ${theirs}`)
        met[known.name] = (met[known.name] ?? 0) + 1
    }
}

test('random expressions fire as two libraries have it but for differences that have names', () => {
    const random = makeRandom(5)
    const changes = Object.fromEntries(zones.map((zone) => [zone, changesOf(zone)]))
    const met = { equal: 0 }
    equal(changes['Europe/Berlin'].includes(Date.parse('2026-03-29T01:00:00Z')), true)
    for (let i = 0; i < 250; i++) {
        const zone = random.pick(zones)
        const anywhere = Date.UTC(random.int(firstYear, lastYear), random.int(0, 11), random.int(1, 28), random.int(0, 23))
        const near = random.chance(0.5) && changes[zone].length > 0
        const from = near ? random.pick(changes[zone].slice(0, -6)) - random.int(0, 30) * hour + 1_800_000 : anywhere
        compare({ expression: makeExpression(random), zone, from: new Date(from).toISOString(), changes: changes[zone] }, met)
    }
    const rare = { expression: '0 0 30 2 *', zone: 'UTC', from: '2026-01-01T00:00:00Z', changes: [] }
    compare(rare, met)
    for (const { name } of differences) check(met[name] > 0, `no expression has met this difference: ${name}`)
    note(`${met.equal} of 502 lists of ${count} fires are the same, the others differ by name`)
})
