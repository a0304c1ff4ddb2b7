// SPDX-License-Identifier: Apache-2.0
//
// holdfast endpoints: every action as an operator types it, against a receiver that
// really answers; secrets that are given and never come back; what is typed wrong.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { clean, good, refused, startCommand, table } from './lib/cli.mjs'
import { startReceiver } from './lib/receiver.mjs'
import { run } from './lib/server.mjs'
import { check, equal, has, test } from './lib/test.mjs'

const start = (t, options) => startCommand(t, 'endpoints', options)

test('an endpoint is added, shown, listed, set, paused, resumed and deleted', async (t) => {
    const [server, ask] = await start(t)
    equal(await good(ask()), 'No endpoints here. Make one: holdfast endpoints add NAME URL --every 5m\n')
    const told = await good(ask('add', 'sync', 'http://127.0.0.1:9/a', '--cron', '0 3 1 1 *', '--tz', 'Europe/Berlin', '--method', 'PUT',
        '--timeout-ms', '5000', '--expect', '200, 404-410', '--max-execution-time-ms', '9000', '--retry-delays', '5,50', '--metadata', '{"a":"b"}'))
    check(/^Endpoint sync \(\d+\): 0 3 1 1 \*, next at \d{4}-01-01T02:00:00.000Z\n$/.test(told), told)
    const made = await ask.json('show', 'sync')
    equal(made, (await server.get(`/projects/default/endpoints/${made.id}`)).body)
    equal([made.url, made.method, made.timeoutMs, made.expectedStatuses, made.maxExecutionTimeMs, made.retryDelaysSeconds, made.metadata],
        ['http://127.0.0.1:9/a', 'PUT', 5000, [200, '404-410'], 9000, [5, 50], { a: 'b' }])
    equal(await ask.json('show', made.id), made)
    const shown = await good(ask('show', 'sync'))
    for (const words of ['http://127.0.0.1:9/a', 'Europe/Berlin', '[200,"404-410"]', 'failures in a row  0']) has(shown, words)
    equal(shown.match(/^name /gm).length, 1)
    equal((await ask.json('list')).items, [made])
    await good(ask('set', 'sync', '--to', 'http://127.0.0.1:9/b', '--every', '90s', '--method', '', '--expect', '', '--name', 'renamed'))
    const set = await ask.json('show', 'renamed')
    equal([set.url, set.everyMs, set.cron, set.method, set.expectedStatuses, set.timeoutMs], ['http://127.0.0.1:9/b', 90000, null, 'POST', ['200-299'], 5000])
    equal(await good(ask('pause', 'renamed', '--reason', 'a move', '--until', '2100-01-01T00:00:00Z')), 'renamed is paused until 2100-01-01T00:00:00.000Z\n')
    has(await good(ask('show', 'renamed')), 'a move')
    has((await table(ask, 'list'))[1], 'paused')
    equal(await good(ask('resume', made.id)), 'renamed goes on\n')
    has(await good(run(['schedules', 'show', 'renamed'], { env: { ...clean, HOLDFAST_URL: server.address } })), `holdfast endpoints show ${made.id}`)
    equal(await good(ask('delete', 'renamed')), `Endpoint ${made.id} is deleted.\n`)
    await refused(3, 'no endpoint renamed', ask('show', 'renamed'))
    await refused(3, `no endpoint ${made.id}`, ask('delete', made.id))
    await good(ask('add', '2024', 'http://a')) // a name that looks like an id
    equal((await ask.json('show', '2024')).name, '2024')
    const { id } = await ask.json('show', '2024')
    equal(await ask.json('delete', '2024'), { deleted: id })
})

test('an endpoint is called now and its runs are told', async (t) => {
    const [server, ask] = await start(t)
    const receiver = await startReceiver(t, ({ path }) => ({ status: path === '/bad' ? 500 : 200 }))
    await good(ask('add', 'fine', receiver.url('/fine'), '--body', '{"n": 0.10}'))
    await good(ask('add', 'bad', receiver.url('/bad'), '--body', 'plain', '--max-retries', '3', '--every', '1d'))
    equal(await good(ask('runs', 'fine')), 'No runs so far. Call it now: holdfast endpoints run NAME --wait-ms 60000\n')
    const id = (await good(ask('run', 'fine'))).trim()
    equal((await server.outcome(id)).state, 'completed')
    equal(receiver.got('/fine')[0].body, '{"n": 0.10}') // byte for byte
    has(await good(ask('run', 'fine', '--wait-ms', '30000')), 'state              completed')
    // it has retries left, and whoever waits is told of this call
    const failed = await ask('run', 'bad', '--wait-ms', '30000')
    equal([failed.code, failed.stderr], [1, ''])
    has(failed.stdout, 'status 500')
    equal(receiver.got('/bad')[0].body, 'plain')
    const runs = await table(ask, 'runs', 'fine')
    equal([runs.length, runs[0].split(/ {2,}/)], [3, ['JOB', 'STATE', 'ATTEMPT', 'STARTED', 'TOOK MS', 'ANSWER', 'ERROR']])
    check(/^\d+ +completed +1 +\d\d:\d\d:\d\d +\d+ +200 +-$/.test(runs[1]) || /^\d+ +completed +1 +\d\d-\d\d /.test(runs[1]), runs[1])
    equal((await ask.json('runs', 'fine')).items.map((r) => r.response.status), [200, 200])
    const first = await good(ask('runs', 'fine', '--limit', '1'))
    const [, cursor] = first.match(/More with --cursor (\d+)\n$/)
    equal((await ask.json('runs', 'fine', '--cursor', cursor)).items.map((r) => r.jobId), [id])
    const list = await table(ask)
    check(/ failing /.test(list.find((l) => l.includes(' bad '))), list.join('\n'))
    check(/ active .* 200$/.test(list.find((l) => l.includes(' fine '))), list.join('\n'))
    has(await good(ask('show', 'bad')), 'failures in a row  1')
    await refused(5, 'is not over', ask('run', 'bad', '--wait-ms', '0'))
})

test('headers are set one by one and a secret is never shown', async (t) => {
    const [server, ask] = await start(t)
    const receiver = await startReceiver(t)
    const file = join(t.folder, 'headers')
    writeFileSync(file, 'Authorization: Bearer hush-hush\r\n\nX-Key: psst\n')
    const texts = [await good(ask('add', 'e', receiver.url('/'), '--header', 'X-Team: blue: or red', '--header', 'X-Old: 1', '--secret-header', `@${file}`))]
    texts.push(await good(ask('set', 'e', '--header', 'x-old:', '--header', 'X-New: 2')))
    texts.push(await good(ask('show', 'e')), await good(ask('show', 'e', '--json')), await good(ask('list', '--json')), await good(ask()))
    equal((await ask.json('show', 'e')).headers, { 'X-Team': 'blue: or red', Authorization: { secret: true }, 'X-Key': { secret: true }, 'X-New': '2' })
    has(texts[2], 'header             Authorization: (secret)')
    await good(ask('run', 'e', '--wait-ms', '30000'))
    const [{ headers }] = receiver.got('/')
    equal([headers.authorization, headers['x-key'], headers['x-team'], headers['x-new'], headers['x-old']], ['Bearer hush-hush', 'psst', 'blue: or red', '2', undefined])
    texts.push(await good(ask('runs', 'e', '--json')))
    const wrong = await ask('set', 'e', '--secret-header', 'Bearer hush-hush')
    equal(wrong.code, 2)
    has(wrong.stderr, 'there is no colon')
    texts.push(wrong.stderr, (await ask('set', 'e', '--secret-header', 'A b: hush-hush')).stderr)
    for (const text of texts) check(!/hush-hush|psst/.test(text), text)
    has((await ask.input('X-In: 3\n', 'set', 'e', '--header', '@-')).stdout, 'Endpoint e')
    equal((await ask.json('show', 'e')).headers['X-In'], '3')
    writeFileSync(file, '\n')
    await refused(2, 'there is no header in', ask('set', 'e', '--secret-header', `@${file}`))
    equal((await ask.json('show', 'e')).headers['X-In'], '3')
    await good(ask('set', 'e', '--header', ''))
    equal((await ask.json('show', 'e')).headers, {})
    equal((await server.get('/jobs?state=failed')).body.items, [])
})

test('endpoints of all projects are one list, in pages', async (t) => {
    const [server, ask] = await start(t)
    for (const name of ['shop', 'empty']) await server.post('/projects', { name })
    const ids = []
    const shops = [1, 3, 4, 5, 6] // the last ones are all of one project
    for (let i = 0; i < 7; i++) {
        const project = shops.includes(i) ? 'shop' : 'default'
        ids.push((await server.post(`/projects/${project}/endpoints`, { name: `an-endpoint-with-a-long-name-${i}`, url: 'http://a', everyMs: 86400000 })).body.id)
    }
    equal((await ask.json('list')).items.map((e) => e.id), ids)
    for (const limit of [1, 2, 3, 7, 50]) {
        const seen = []
        for (let cursor = null, first = true; first || cursor; first = false) {
            const page = await ask.json('list', '--limit', String(limit), ...(cursor ? ['--cursor', cursor] : []))
            check(page.items.length <= limit && page.items.length > 0, `${page.items.length} of ${limit}`)
            seen.push(...page.items.map((e) => e.id))
            cursor = page.nextCursor
        }
        equal(seen, ids)
    }
    equal((await table(ask, 'list')).length, 8)
    equal((await ask.json('list', '--project', 'shop')).items.map((e) => e.id), shops.map((i) => ids[i]))
    has(await good(ask('list', '--project', 'empty')), 'No endpoints here')
    has(await good(ask('list', '--limit', '2')), `More with --cursor ${ids[1]}\n`)
    await good(ask('add', 'same', 'http://a'))
    await good(ask('add', 'same', 'http://b', '--project', 'shop'))
    await refused(2, 'several projects', ask('show', 'same'))
    equal((await ask.json('show', 'same', '--project', 'shop')).url, 'http://b')
    await good(ask('delete', 'same', '--project', 'shop'))
    equal((await ask.json('show', 'same')).url, 'http://a')
})

test('a page that ends early loses no endpoint of another project', async (t) => {
    const [server, ask] = await start(t)
    await server.post('/projects', { name: 'shop' })
    const ids = []
    // pages of the API end after some MiB, too
    for (const project of ['default', 'default', 'default', 'default', 'default', 'default', 'shop'])
        ids.push((await server.post(`/projects/${project}/endpoints`, { name: `e${ids.length}`, url: 'http://a', body: 'x'.repeat(900_000) })).body.id)
    const first = await ask.json('list')
    check(first.items.length < 7 && first.nextCursor, `${first.items.length}`)
    const second = await ask.json('list', '--cursor', first.nextCursor)
    equal([...first.items, ...second.items].map((e) => e.id), ids)
    equal(second.nextCursor, null)
})

test('what is typed wrong is told, with an exit code', async (t) => {
    const [server, ask] = await start(t)
    await good(ask('add', 'e', 'http://a'))
    await server.post('/schedules', { name: 's', kind: 'k' })
    await refused(2, 'cannot "disable"; it can list, show, add, set, run, runs, pause, resume and delete.', ask('disable', 'e'))
    await refused(2, 'did you mean show?', ask('shwo', 'e'))
    await refused(2, 'holdfast endpoints add NAME URL', ask('add', 'x', '--url', 'http://127.0.0.1:1')) // that is the server
    await refused(2, 'takes less than that', ask('list', 'e'))
    await refused(2, 'takes more than that: holdfast endpoints show NAME', ask('show'))
    await refused(2, '--cron is no option of "holdfast endpoints run"', ask('run', 'e', '--cron', '@daily'))
    await refused(2, '--to is no option of "holdfast endpoints add"', ask('add', 'x', 'http://a', '--to', 'http://b'))
    await refused(2, 'begin with http', ask('add', 'x', 'a.example'))
    await refused(2, 'such as 90s', ask('add', 'x', 'http://a', '--every', '5'))
    await refused(2, 'such as 90s', ask('add', 'x', 'http://a', '--every', '99999999999d'))
    await refused(2, 'outside 0 to 59', ask('add', 'x', 'http://a', '--cron', '61 * * * *'))
    await refused(2, 'expectedStatuses', ask('add', 'x', 'http://a', '--expect', 'good'))
    await refused(2, 'positive integer', ask('add', 'x', 'http://a', '--max-execution-time-ms', '9999999'))
    await refused(2, 'whole number', ask('add', 'x', 'http://a', '--timeout-ms', 'soon'))
    await refused(2, 'there is no colon', ask('add', 'x', 'http://a', '--header', 'X-A'))
    await refused(2, '"a b" is no header\'s name', ask('add', 'x', 'http://a', '--header', 'a b: c'))
    await refused(2, '"" is no header\'s name', ask('add', 'x', 'http://a', '--header', ': c'))
    await refused(3, 'nowhere cannot be read', ask('add', 'x', 'http://a', '--header', '@/nowhere'))
    await refused(3, 'nowhere cannot be read', ask('add', 'x', 'http://a', '--body', '@/nowhere'))
    await refused(2, 'headers', ask('add', 'x', 'http://a', '--header', 'Content-Length: 5'))
    await refused(3, 'no project "none"', ask('add', 'x', 'http://a', '--project', 'none'))
    await refused(2, 'no project\'s name', ask('list', '--project', 'a/b'))
    await refused(3, 'no project "none"', ask('list', '--project', 'none'))
    await refused(2, '--limit is "0"', ask('list', '--limit', '0'))
    await refused(2, '"a b" is no endpoint\'s name', ask('show', 'a b'))
    await refused(3, 'There is no endpoint s, but a schedule: see "holdfast schedules show s".', ask('show', 's'))
    await refused(4, 'is taken', ask('add', 'e', 'http://b'))
    await refused(2, 'nothing to change', ask('set', 'e'))
    await refused(2, 'url', ask('set', 'e', '--to', ''))
    await refused(2, 'until', ask('pause', 'e', '--until', 'tomorrow'))
    await refused(2, '--wait-ms is "x"', ask('run', 'e', '--wait-ms', 'x'))
    await refused(2, 'no option', run(['endpoints', '--db', server.store], { env: clean }))
    await refused(6, '127.0.0.1:1', run(['endpoints', '--url', 'http://127.0.0.1:1'], { env: clean }))
    equal((await ask.json('list')).items.map((e) => e.name), ['e']) // nothing of what was refused
    const help = await good(run(['help', 'endpoints'], { env: clean }))
    for (const words of ['add NAME URL', '--secret-header', 'Asks the server.']) has(help, words)
})
