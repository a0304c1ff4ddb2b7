// SPDX-License-Identifier: Apache-2.0
//
// holdfast schedules: every action as people and scripts use it, and a crontab that
// becomes schedules and commands that really run.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { clean, good, refused, startCommand, table } from './lib/cli.mjs'
import { run } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const start = (t, options) => startCommand(t, 'schedules', options)

test('a schedule is added, shown, listed, set, paused, resumed and deleted', async (t) => {
    const [server, ask] = await start(t)
    const told = await good(ask('add', 'report', '--kind', 'report', '--cron', '0 3 1 1 *', '--tz', 'Europe/Berlin',
        '--payload', '{"of": "the year"}', '--priority', '7', '--retry-delays', '5,50', '--metadata', '{"a":"b"}'))
    check(/^Schedule report \(\d+\): 0 3 1 1 \*, next at \d{4}-01-01T02:00:00.000Z\n$/.test(told), told)
    const made = await ask.json('show', 'report')
    equal([made.cron, made.timeZone, made.payload, made.priority, made.retryDelaysSeconds, made.metadata],
        ['0 3 1 1 *', 'Europe/Berlin', { of: 'the year' }, 7, [5, 50], { a: 'b' }])
    equal(await ask.json('show', made.id), made)
    has(await good(ask('show', 'report')), 'Europe/Berlin')
    for (const list of [await good(ask()), await good(ask('list'))]) has(list, 'report')
    equal((await ask.json('list')).items, [made])
    check(/ \d{4}-01-01 | 02:00:00 /.test((await table(ask, 'list'))[1])) // the next one, short
    has(await good(ask('list')), made.nextFireAt) // for scripts, and people with room
    await good(ask('set', 'report', '--every', '90s', '--payload', '', '--priority', '', '--name', 'renamed'))
    const set = await ask.json('show', 'renamed')
    equal([set.everyMs, set.cron, set.payload, set.priority, set.maxRetries], [90000, null, null, null, null])
    has(await good(ask('list')), 'every 90s')
    equal(await good(ask('pause', 'renamed', '--reason', 'a move', '--until', '2100-01-01T00:00:00Z')), 'renamed is paused until 2100-01-01T00:00:00.000Z\n')
    has(await good(ask('show', 'renamed')), 'a move')
    equal(await good(ask('resume', 'renamed')), 'renamed goes on\n')
    const job = (await good(ask('trigger', 'renamed'))).trim()
    equal((await server.get(`/jobs/${job}`)).body.scheduleId, made.id)
    equal((await good(ask('trigger', made.id))).trim(), job) // it is live still
    has(await good(ask('fires', 'renamed')), 'None of its times has come')
    equal((await ask.json('fires', 'renamed')).items, [])
    has(await good(ask('delete', 'renamed')), 'is deleted')
    await refused(3, 'no schedule renamed', ask('show', 'renamed'))
    await refused(3, `no schedule ${made.id}`, ask('delete', made.id))
})

test('times are shown before and after a schedule is there', async (t) => {
    const [, ask] = await start(t)
    const when = ['--cron', '30 2 * * *', '--tz', 'Europe/Berlin']
    const tried = await good(ask('preview', ...when, '--from', '2026-03-28T00:00:00Z', '-n', '2'))
    has(tried, '2026-03-29T03:00:00.000+02:00  2026-03-29T01:00:00.000Z')
    await good(ask('add', 'a', '--kind', 'k', ...when))
    equal(await good(ask('preview', 'a', '--from', '2026-03-28T00:00:00Z', '--count', '2')), tried)
    equal((await ask.json('preview', '--every', '5m', '--from', '2026-01-01T00:00:00Z', '--count', '1')).times[0].at, '2026-01-01T00:05:00.000Z')
    await good(ask('add', 'hand', '--kind', 'k'))
    has(await good(ask('preview', 'hand')), 'never fires again by itself')
    await refused(2, 'one of the two', ask('preview'))
    await refused(2, 'one of the two', ask('preview', 'a', ...when))
    await refused(2, 'a schedule has its own', ask('preview', 'a', '--tz', 'UTC'))
})

test('what is wrong on the command line is told, with an exit code', async (t) => {
    const [server, ask] = await start(t)
    await refused(2, 'can list, show, add', ask('frobnicate'))
    await refused(2, 'takes more than that: holdfast schedules show NAME', ask('show'))
    await refused(2, 'takes less than that', ask('show', 'a', 'b'))
    await refused(2, '--cron is no option of "holdfast schedules list"', ask('list', '--cron', '@daily'))
    await refused(2, 'kind is missing', ask('add', 'a', '--cron', '@daily'))
    await refused(2, 'outside 0 to 59', ask('add', 'a', '--kind', 'k', '--cron', '61 * * * *'))
    await refused(2, 'no time zone', ask('add', 'a', '--kind', 'k', '--cron', '@daily', '--tz', 'Mars/X'))
    await refused(2, 'such as 90s', ask('add', 'a', '--kind', 'k', '--every', 'often'))
    await refused(2, 'everyMs', ask('add', 'a', '--kind', 'k', '--every', '5ms'))
    await refused(2, 'payload is not valid JSON', ask('add', 'a', '--kind', 'k', '--payload', '{'))
    await refused(2, 'no schedule\'s name', ask('show', 'a b'))
    await refused(2, 'nothing to change', ask('set', (await server.post('/schedules', { name: 'x', kind: 'k' })).body.id))
    await refused(4, 'is taken', ask('add', 'x', '--kind', 'k'))
    await server.post('/projects', { name: 'shop' })
    await good(ask('add', 'x', '--kind', 'k', '--project', 'shop'))
    await refused(2, 'several projects', ask('show', 'x'))
    equal((await ask.json('show', 'x', '--project', 'shop')).project, 'shop')
    equal((await ask.json('list', '--project', 'shop')).items.length, 1)
    await refused(2, 'no option', run(['schedules', '--db', server.store], { env: clean }))
    await refused(6, '127.0.0.1:1', run(['schedules', '--url', 'http://127.0.0.1:1'], { env: clean }))
    const help = await good(run(['help', 'schedules'], { env: clean }))
    for (const word of ['import crontab FILE|-', 'trigger NAME', '--misfire', 'Asks the server.']) has(help, word)
})

// ---- crontabs ----

const crontab = (out) => `# what the machine does
SHELL=/bin/bash
MAILTO = "root"
GREETING='it is "me"'

* * * * *   echo "$GREETING, bash \${BASH_VERSION:+yes}" 'and $HOME; # this' >> ${out}
*/5 2-4 * jan-mar mon-fri  date +\\%s
@reboot     /usr/bin/true
0 4 * * *   mail -s hello%body
61 * * * *  /usr/bin/true
* * * *
@daily      /usr/bin/true
30 1 * * *  /usr/bin/true
`
const results = [
    [1, 'comment'], [2, 'variable'], [3, 'variable'], [4, 'variable'], [5, 'blank'], [6, 'created'], [7, 'created'],
    [8, 'refused'], [9, 'refused'], [10, 'refused'], [11, 'refused'], [12, 'created'], [13, 'created'],
]

test('a crontab becomes schedules and commands, and every line is reported', async (t) => {
    const [server, ask] = await start(t, { config: '' })
    const file = join(t.folder, 'crontab')
    const snippet = join(t.folder, 'crontab.conf')
    const out = join(t.folder, 'out')
    writeFileSync(file, crontab(out))
    const { code, stdout } = await ask('import', 'crontab', file, '--tz', 'Europe/Berlin', '--config-out', snippet, '--json')
    equal(code, 1)
    const report = JSON.parse(stdout)
    equal(report.lines.map((l) => [l.line, l.result]), results)
    equal([report.created, report.updated, report.unchanged, report.refused], [4, 0, 0, 4])
    for (const [line, words] of [[8, '@reboot'], [9, 'standard input'], [10, 'outside 0 to 59'], [11, '4 fields']])
        has(report.lines[line - 1].detail, words)
    has(report.lines[2].detail, 'MAILTO')
    equal(readFileSync(snippet, 'utf8'), report.config)
    const names = report.lines.filter((l) => l.result === 'created').map((l) => l.name)
    equal(new Set(names).size, 4)
    const made = (await server.get('/schedules')).body.items
    equal(made.map((s) => s.name), names)
    equal(made.map((s) => s.cron), ['* * * * *', '*/5 2-4 * jan-mar mon-fri', '@daily', '30 1 * * *'])
    for (const s of made)
        equal([s.kind, s.timeZone, s.overlap, s.misfire, s.maxRetries, s.maxExecutionTimeMs], [s.name, 'Europe/Berlin', 'queue', 'skip', 0, 604800000])

    // The commands are what cron would have run.
    server.options.config = readFileSync(snippet, 'utf8')
    server.arguments()
    server.child.kill('SIGHUP')
    await until('it has the commands', () => server.stderr.includes(' reloaded'))
    const done = await server.outcome((await server.post(`/schedules/${made[0].id}/trigger`)).body.id)
    check(done.state === 'completed', JSON.stringify(done.error))
    has(readFileSync(out, 'utf8'), 'it is "me", bash yes and $HOME; # this\n')
    const dated = await server.outcome((await server.post(`/schedules/${made[1].id}/trigger`)).body.id)
    const output = (await server.get(`/jobs/${dated.id}/output`)).body
    check(/^\d+\n$/.test(output.stdout.head), JSON.stringify(output))
})

test('importing again makes nothing twice', async (t) => {
    const [server, ask] = await start(t)
    const snippet = join(t.folder, 'crontab.conf')
    const take = async (text, ...more) => {
        const { code, stdout, stderr } = await ask.input(text, 'import', 'crontab', '-', '--tz', 'UTC', '--json', ...more)
        check(code === 0, stderr)
        return JSON.parse(stdout).lines.map((l) => [l.result, l.name])
    }
    const lines = '0 3 * * * backup --all\n0 4 * * * tidy\n0 5 * * * tidy\n'
    const first = await take(lines, '--paused')
    equal(first.map((l) => l[0]), ['created', 'created', 'created'])
    check((await server.get('/schedules')).body.items.every((s) => s.paused), 'they wait for their resume')
    const again = first.map(([, name]) => ['unchanged', name])
    equal(await take(lines, '--config-out', snippet), again)
    await good(ask('set', first[0][1], '--misfire', 'once', '--max-retries', '3'))
    equal(await take(lines, '--config-out', snippet), again) // what was set by hand stays
    const moved = '# it moved\n\n30 3 * * * backup --all\n0 4 * * * tidy\n0 5 * * * tidy\n'
    equal(await take(moved), [['comment', null], ['blank', null], ['updated', first[0][1]], ...again.slice(1)])
    const s = await ask.json('show', first[0][1])
    equal([s.cron, s.misfire, s.maxRetries], ['30 3 * * *', 'once', 3])
    equal((await server.get('/schedules')).body.items.length, 3)
    equal((await take(lines, '--prefix', 'other-')).map((l) => l[0]), ['created', 'created', 'created'])
    await server.post('/projects', { name: 'shop' })
    equal((await take(lines, '--project', 'shop')).map((l) => l[0]), ['created', 'created', 'created'])
    await server.post('/schedules', { name: first[0][1].replace('cron.', 'mine.'), kind: 'k' })
    const { code, stdout } = await ask.input(lines, 'import', 'crontab', '-', '--prefix', 'mine.', '--json')
    const lineOne = JSON.parse(stdout).lines[0]
    equal([code, lineOne.result], [1, 'refused'])
    has(lineOne.detail, 'choose another --prefix')
    writeFileSync(join(t.folder, 'mine.conf'), 'db = x\n')
    await refused(4, 'not made by an import', ask.input(lines, 'import', 'crontab', '-', '--config-out', join(t.folder, 'mine.conf')))
    equal(readFileSync(join(t.folder, 'mine.conf'), 'utf8'), 'db = x\n')
    const before = (await server.get('/schedules')).body.items.length
    await refused(9, 'cannot be written', ask.input('@daily new\n', 'import', 'crontab', '-', '--config-out', join(t.folder, 'none', 'x')))
    equal((await server.get('/schedules')).body.items.length, before) // found out before anything was made
})

test('a crontab can be tried without a server, and with a column of users', async (t) => {
    const env = { ...clean, HOLDFAST_URL: 'http://127.0.0.1:1' }
    const text = 'HOME=/srv\n17 * * * *\troot\tcd / && run-parts --report /etc/cron.hourly\nCRON_TZ=Asia/Tokyo\n@daily nobody tidy\n* * * * * root\n'
    const ask = (...args) => run(['schedules', 'import', 'crontab', '-', '--dry-run', '--user-column', ...args], { env, input: text })
    const { code, stdout } = await ask('--tz', 'Europe/Berlin', '--json', '--config-out', join(t.folder, 'never'))
    const report = JSON.parse(stdout)
    equal([code, report.wouldImport, report.created, report.refused], [1, 2, 0, 1])
    equal(report.lines.map((l) => l.result), ['variable', 'would-import', 'variable', 'would-import', 'refused'])
    has(report.lines[1].detail, '17 * * * *, Europe/Berlin')
    has(report.lines[3].detail, '@daily, Asia/Tokyo')
    has(report.lines[4].detail, 'no command')
    has(report.config, `argv = '/bin/sh' -c 'cd / && run-parts --report /etc/cron.hourly'\nuser = "root"\ndirectory = "/srv"\nenvironment = 'HOME=/srv'\n`)
    check(!existsSync(join(t.folder, 'never')), 'a try writes nothing')
    const homes = await run(['schedules', 'import', 'crontab', '-', '--dry-run', '--user-column'], { env, input: '@daily root x\n@daily nobody-such x\n' })
    has(homes.stdout, 'user = "root"\ndirectory = "/root"\n')
    has(homes.stdout, 'user = "nobody-such"\n')
    const told = await ask()
    equal(told.code, 1)
    has(told.stdout, 'would be imported, 1 are refused; nothing was done')
    await refused(3, 'cannot be read', run(['schedules', 'import', 'crontab', join(t.folder, 'none'), '--dry-run'], { env }))
    await refused(2, 'not "systemd"', run(['schedules', 'import', 'systemd', '-', '--dry-run'], { env }))
    await refused(2, '--prefix', run(['schedules', 'import', 'crontab', '-', '--dry-run', '--prefix', 'a b'], { env }))
    await refused(6, '127.0.0.1:1', run(['schedules', 'import', 'crontab', '-'], { env, input: '@daily x\n' }))
    const strange = await run(['schedules', 'import', 'crontab', '-', '--dry-run', '--json'], { env, input: Buffer.from('@daily \xff\n@daily \x00x\n\r\n@daily ok\r', 'latin1') })
    equal(JSON.parse(strange.stdout).lines.map((l) => l.result), ['refused', 'refused', 'blank', 'would-import'])
})

test('whatever is in a crontab, a server takes the configuration that is made of it', async (t) => {
    const snippet = join(t.folder, 'crontab.conf')
    const out = join(t.folder, 'out')
    const text = `"A' 'SNEAKED=1"=1\n* * * * * printf '%s' 'a\tb' "$SNEAKED" > ${out}\n`.replace('%s', '\\%s')
        + '* * * * * bell \x07\nX=\x1b[1m\n0 0 30 2 * never\n* * * * * car\rriage [command x]\n'
    const lines = async (ask, ...more) => JSON.parse((await ask.input(text, 'import', 'crontab', '-', '--json', ...more)).stdout).lines
    const [server, ask] = await start(t, { config: '' })
    const results = (await lines(ask, '--dry-run')).map((l) => l.result.replace('would-import', 'created'))
    equal(results, ['variable', 'created', 'refused', 'refused', 'refused', 'refused'])
    const made = await lines(ask, '--config-out', snippet)
    equal(made.map((l) => l.result), results) // the try has told the truth
    has(made[4].detail, 'never fires')
    server.options.config = readFileSync(snippet, 'utf8')
    server.arguments()
    server.child.kill('SIGHUP')
    await until('it has the commands', () => server.stderr.includes(' reloaded'))
    const schedule = await ask.json('show', made[1].name)
    const done = await server.outcome((await server.post(`/schedules/${schedule.id}/trigger`)).body.id)
    check(done.state === 'completed', JSON.stringify(done.error))
    equal(readFileSync(out, 'utf8'), 'a\tb')
})
