// SPDX-License-Identifier: Apache-2.0
//
// The command line against a server, and against the store behind it: the same
// answers through both doors, sentences, exit codes, long work that stops and goes on.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { join } from 'node:path'

import { holdfast, onPostgres, run, sql, startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const clean = { ...process.env }
for (const name of Object.keys(clean)) if (name.startsWith('HOLDFAST_')) delete clean[name]

// `cli(...)` asks the server, `cli.store(...)` the store it has open.
function commands(server, more = {}) {
    const at = (env) => async (...args) => run(args, { env: { ...clean, ...env, ...more } })
    const cli = at({ HOLDFAST_URL: server.address })
    cli.store = at({ HOLDFAST_DB: server.store })
    return cli
}

async function good(answer) {
    const { code, stdout, stderr } = await answer
    equal([code, stderr], [0, ''])
    return stdout
}

// The exit code, and a part of the sentence.
async function refused(code, part, answer) {
    const got = await answer
    check(got.code === code, `exit code ${got.code}, not ${code}: ${got.stdout}${got.stderr}`)
    has(got.stderr, part)
    check(got.stderr.startsWith('holdfast: '), got.stderr)
    return got.stderr
}

const failing = `[command fail]
argv = /bin/false
[command work]
argv = /bin/sh -c 'cat >/dev/null; echo "{\\"n\\":7}"'
`

test('the same job is shown the same through both doors', async (t) => {
    const server = await startServer(t, { config: failing })
    const cli = commands(server)
    await server.ready()
    const ids = [
        await good(cli('enqueue', 'crawl', '{"n": 0.10}', '--queue', 'q', '--priority', '9', '--unique-key', 'ü',
            '--max-retries', '2', '--retry-delays', '1,2', '--metadata', '{"a":"b"}', '--on-crash', 'fail',
            '--run-at', '2040-01-01T00:00:00Z', '--max-execution-time-ms', '5000')),
        await good(cli.store('enqueue', 'later', '--delay-ms', '3600000', '--expires-at', '2041-01-01T00:00:00Z')),
        await good(cli('enqueue', 'fail', '--max-retries', '0')),
        await good(cli.store('enqueue', 'work', '[1]')),
    ].map((text) => text.trim())
    for (const id of ids.slice(2)) await server.outcome(id)
    for (const id of ids) {
        const [a, b] = [await good(cli('show', id, '--json')), await good(cli.store('show', id, '--json'))]
        equal(JSON.parse(a), JSON.parse(b))
    }
    for (const id of [ids[0], ids[2]]) {
        const [a, b] = [await good(cli('explain', id)), await good(cli.store('explain', id))]
        equal(a, b)
        check(a.split('\n').length > 4, a)
    }
    has(await good(cli('show', ids[3])), '{"n":7}')
    const [a, b] = [await good(cli('queues')), await good(cli.store('queues'))]
    equal(a, b)
    const [c, d] = [await good(cli('list')), await good(cli.store('list'))]
    equal(c, d)
    const [e, f] = [await good(cli('recoveries', '--json')), await good(cli.store('recoveries', '--json'))]
    equal(JSON.parse(e).items, JSON.parse(f).items)
})

test('who answers is decided by flags before variables', async (t) => {
    const server = await startServer(t)
    const nowhere = 'http://127.0.0.1:1'
    const ask = (env, ...args) => run(['queues', ...args], { env: { ...clean, ...env }, cwd: t.folder })
    await good(ask({}, '--url', server.address))
    await good(ask({ HOLDFAST_URL: nowhere, HOLDFAST_DB: 'none.db' }, '--url', server.address))
    await good(ask({ HOLDFAST_URL: nowhere }, '--db', server.store))
    await good(ask({ HOLDFAST_URL: server.address, HOLDFAST_DB: 'none.db' }))
    await good(ask({ HOLDFAST_DB: server.store }))
    await refused(6, 'There is no server at http://127.0.0.1:1', ask({ HOLDFAST_URL: nowhere }))
    await refused(3, 'none.db', ask({ HOLDFAST_URL: server.address }, '--db', 'none.db'))
    await refused(2, 'give one', ask({}, '--db', server.store, '--url', server.address))
    await refused(2, 'no server\'s address', ask({}, '--url', 'ftp://example.com'))
    await refused(2, 'no server\'s address', ask({}, '--url', 'unix:'))
    await refused(6, 'holdfast serve', ask({}, '--url', `unix:${t.folder}/none.sock`))
    check(!existsSync(join(t.folder, 'none.db')), 'it was made by looking')
})

test('a Unix socket is a server as well', async (t) => {
    const server = await startServer(t, { listen: `unix:${t.folder}/s.sock` })
    const cli = commands(server)
    const id = (await good(cli('enqueue', 'hello'))).trim()
    has(await good(cli('show', id)), 'queued')
})

test('problems of the API are sentences and exit codes', async (t) => {
    const server = await startServer(t)
    const cli = commands(server)
    for (const ask of [cli, cli.store]) {
        await refused(2, 'from 1 to 9', ask('enqueue', 'a', '--priority', '10'))
        await refused(2, 'whole number', ask('enqueue', 'a', '--priority', 'high'))
        await refused(2, 'payload is not valid JSON', ask('enqueue', 'a', '{'))
        await refused(2, 'metadata', ask('enqueue', 'a', '--metadata', '{"a":1}'))
        await refused(2, 'kind', ask('enqueue', 'a b'))
        await refused(2, 'seconds', ask('enqueue', 'a', '--retry-delays', '1,x'))
        await refused(2, 'return, reject, replace', ask('enqueue', 'a', '--on-conflict', 'maybe'))
        await refused(2, 'delayMs', ask('enqueue', 'a', '--delay-ms', '1', '--run-at', '2040-01-01T00:00:00Z'))
        await refused(3, 'nobodys', ask('enqueue', 'a', '--project', 'nobodys'))
        await refused(3, 'There is no job 7.', ask('show', '7'))
        await refused(3, 'There is no job 7.', ask('explain', '7'))
        await refused(3, 'There is no job 7.', ask('cancel', '7'))
        await refused(3, 'There is no job 7.', ask('retry', '7'))
        await refused(2, "no job's id", ask('show', 'x1'))
        await refused(2, 'state', ask('list', '--state', 'asleep'))
        await refused(2, 'limit', ask('list', '--limit', '1001'))
        await refused(2, 'no queue\'s name', ask('pause', 'a/b'))
        await refused(2, 'needs jobs\' ids, or a filter', ask('retry'))
        await refused(2, 'give one kind', ask('retry', '7', '--state', 'failed'))
        const key = `k${ask === cli}`
        await good(ask('enqueue', 'a', '--unique-key', key))
        await refused(4, 'uniqueKey', ask('enqueue', 'a', '--unique-key', key, '--on-conflict', 'reject'))
        has(await good(ask('enqueue', 'a', '--unique-key', key)), 'was there already')
        await good(ask('enqueue', 'b', '--idempotency-key', key))
        await refused(4, 'dempotency', ask('enqueue', 'c', '--idempotency-key', key))
        const id = (await good(ask('enqueue', 'a'))).trim()
        await refused(5, 'is not over after 20 ms', ask('show', id, '--wait-ms', '20'))
        has(await good(ask('cancel', id, '--reason', 'no need')), `${id} is cancelled`)
        has(await good(ask('show', id)), 'no need')
        has(await good(ask('cancel', id)), `${id} is cancelled`)
        has(await good(ask('retry', id)), 'is tried as job')
    }
    await refused(2, 'a server can', cli.store('list', '--search', 'x'))
    await refused(2, 'a server can', cli.store('list', '--final'))
    await good(cli('list', '--search', 'x', '--final', '--metadata', 'a=b', '--created-after', '2020-01-01T00:00:00Z'))
    await refused(2, 'NAME=TEXT', cli('list', '--metadata', 'a'))
})

test('without the token nothing is told', async (t) => {
    const token = '0123456789abcdef0123456789abcdef'
    const server = await startServer(t, { env: { HOLDFAST_ADMIN_TOKEN: token } })
    await refused(10, 'HOLDFAST_TOKEN', commands(server)('list'))
    await refused(10, '', commands(server, { HOLDFAST_TOKEN: 'wrong' })('list'))
    await refused(2, "line's end", commands(server, { HOLDFAST_TOKEN: 'a\r\nb: c' })('list'))
    await good(commands(server, { HOLDFAST_TOKEN: token })('list'))
})

// A server that is none: what it does with each connection.
async function fake(t, handler) {
    const server = handler.length === 1 ? net.createServer(handler) : http.createServer(handler)
    await new Promise((done) => server.listen(0, '127.0.0.1', done))
    t.defer(() => server.close())
    return { address: `http://127.0.0.1:${server.address().port}`, store: join(t.folder, 'x.db') }
}

test('a lost answer is told apart from no server', async (t) => {
    const lost = commands(await fake(t, (socket) => socket.once('data', () => socket.destroy())))
    await refused(8, 'done or not done', lost('enqueue', 'a'))
    await refused(8, 'done or not done', lost('cancel', '7'))
    await refused(6, '', lost('list'))
    const half = commands(await fake(t, (socket) =>
        socket.once('data', () => socket.end('HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"id":'))))
    await refused(8, 'done or not done', half('enqueue', 'a'))
})

test('a server of something else is recognised', async (t) => {
    const page = commands(await fake(t, (request, answer) => answer.end('<html>')))
    await refused(6, 'is it a Holdfast server?', page('list'))
    const missing = commands(await fake(t, (request, answer) => {
        answer.statusCode = 404
        answer.end('<html>')
    }))
    await refused(2, 'is it a Holdfast server?', missing('list'))
    const moved = commands(await fake(t, (request, answer) => {
        answer.writeHead(302, { location: 'http://127.0.0.1:1/' })
        answer.end()
    }))
    await refused(2, 'is it a Holdfast server?', moved('list'))
    const odd = commands(await fake(t, (request, answer) => answer.end('[1, "\\u001b[2J"]')))
    check(!(await odd('list')).stdout.includes('\x1b'), 'a control character reached the terminal')
})

test('many jobs come out of a file, and an error names its line and how to go on', async (t) => {
    const server = await startServer(t)
    const cli = commands(server)
    for (const ask of [cli, cli.store]) {
        const file = join(t.folder, 'jobs.jsonl')
        const kind = ask === cli ? 'a' : 'b'
        const count = () => Number(sql(server.store, `SELECT count(*) FROM jobs WHERE kind = '${kind}'`))
        const lines = Array.from({ length: 2500 }, (_, i) => JSON.stringify({ kind, payload: i }))
        lines[10] = ''
        lines[1703] = JSON.stringify({ kind, priority: 10 })
        writeFileSync(file, lines.join('\n'))
        const text = await refused(2, `${file}:1704: `, ask('enqueue', '--file', file))
        has(text, 'from 1 to 9')
        equal(count(), 1000)
        const next = text.match(/--file (\S+) --from-line (\d+) --idempotency-key (\S+)/)
        equal(next[2], '1002') // line 11 is empty
        lines[1703] = JSON.stringify({ kind, priority: 9 })
        writeFileSync(file, lines.join('\n'))
        const again = ['enqueue', ...next[0].split(' ')]
        equal(await good(ask(...again)), '1499 jobs enqueued\n')
        equal(count(), 2499)
        equal(await good(ask(...again)), '1499 jobs enqueued\n')
        equal(count(), 2499, 'the same key makes nothing twice')
    }
})

test('a file that is no good is told with its line before anything is sent', async (t) => {
    const server = await startServer(t)
    const cli = commands(server)
    const file = join(t.folder, 'jobs.jsonl')
    const given = (text) => {
        writeFileSync(file, text)
        return cli('enqueue', '--file', file)
    }
    await refused(2, `${file}:2: `, given('{"kind":"a"}\n{"kind":\n'))
    await refused(2, `${file}:1: `, given('[1]\n'))
    await refused(2, `${file}:1: `, given('{"kind":"a"}\0\n'))
    await refused(2, `${file}:1: `, given(`{"kind":"a","payload":"${'x'.repeat(3 << 20)}"}\n`))
    await refused(2, `${file}:3: `, given('{"kind":"a"}\n\n{"kind":"a","colour":1}'))
    equal(await good(given('')), '0 jobs enqueued\n')
    equal(Number(sql(server.store, 'SELECT count(*) FROM jobs')), 0)
    await refused(3, 'cannot be read', cli('enqueue', '--file', join(t.folder, 'none')))
    await refused(2, 'whole job', cli('enqueue', 'a', '--file', file))
    await refused(2, '--queue does not go with --file', cli('enqueue', '--file', file, '--queue', 'q'))
    await refused(2, 'is for --file', cli('enqueue', 'a', '--from-line', '3'))
    const { stdout } = await run(['enqueue', '--file', '-', '--json'],
        { input: '{"kind":"a"}\n{"kind":"a"}', env: { ...clean, HOLDFAST_URL: server.address } })
    equal(JSON.parse(stdout).ids.length, 2)
})

test('all that a filter finds are retried or cancelled, after a dry run', async (t) => {
    const server = await startServer(t, { config: failing })
    const cli = commands(server)
    await server.ready()
    for (const ask of [cli, cli.store]) {
        const queue = ask === cli ? 'q1' : 'q2'
        const ids = []
        for (let i = 0; i < 5; i++) ids.push(await server.enqueue('fail', { queue, maxRetries: 0 }))
        for (const id of ids) await server.outcome(id)
        const filter = ['--state', 'failed', '--queue', queue]
        await server.post(`/queues/${queue}/pause`)
        equal(await good(ask('retry', ...filter, '--dry-run')),
            '5 jobs would be retried, 0 are left alone; nothing was changed.\n')
        equal(await good(ask('retry', ...filter)), '5 jobs were retried, 0 were left alone.\n')
        equal(JSON.parse(await good(ask('retry', ...filter, '--json'))),
            { matched: 5, changed: 0, skipped: 5, dryRun: false })
        equal(await good(ask('cancel', '--queue', queue, '--dry-run')),
            '5 jobs would be cancelled, 5 are left alone; nothing was changed.\n')
        equal(await good(ask('cancel', '--queue', queue, '--reason', 'enough')),
            '5 jobs were cancelled, 5 were left alone.\n')
        const [{ error }] = (await server.get(`/jobs?queue=${queue}&state=cancelled`)).body.items
        equal(error.message, 'enough')
    }
})

test('the outcome of the last retry is waited for', async (t) => {
    const server = await startServer(t, { config: failing })
    const cli = commands(server)
    for (const ask of [cli, cli.store]) {
        const shown = JSON.parse(await good(
            ask('enqueue', 'fail', '--max-retries', '1', '--retry-delays', '0', '--wait-ms', '60000', '--json')))
        equal([shown.state, shown.attempt, shown.retryReason], ['failed', 2, 'exhausted'])
    }
})

test('tables fit the width and colours are for terminals', async (t) => {
    const server = await startServer(t)
    const id = await server.enqueue('a'.repeat(90), { queue: 'q'.repeat(90), uniqueKey: '\x1b[2J\x9b2J' })
    await server.post(`/jobs/${id}/cancel`, { reason: `${'ü'.repeat(200)}\x1b[2J\u009b2J` })
    const env = { ...clean, HOLDFAST_URL: server.address, TERM: 'xterm' }
    for (const line of (await good(run(['list'], { env: { ...env, COLUMNS: '80' } }))).split('\n'))
        check([...line].length <= 80, line)
    for (const args of [['list'], ['show', id], ['explain', id]])
        check(!/[\x1b\u009b]/.test(await good(run(args, { env }))), 'an escape without a terminal')
    const typed = (more) =>
        spawnSync('script', ['-qec', `${holdfast} list`, '/dev/null'], { env: { ...env, ...more }, encoding: 'utf8' }).stdout
    has(typed({}), '\x1b[2mcancelled\x1b[0m')
    check(!typed({ NO_COLOR: '1' }).includes('\x1b'), 'coloured in spite of NO_COLOR')
    check(!typed({}).includes('\x1b[2J'), "a job's text commands the terminal")
})

test('a queue is held while a command runs', async (t) => {
    const server = await startServer(t, { config: failing })
    const cli = commands(server)
    await server.ready()
    const out = join(t.folder, 'out')
    for (const ask of [cli, cli.store]) {
        const inside = `id=$(${holdfast} enqueue work --queue q --url ${server.address}); ` +
            `${holdfast} queues --url ${server.address} --json >${out}; exit 7`
        const { code, stderr } = await ask('reserve', 'q', '--holder', 'me', '--', 'sh', '-c', inside)
        equal([code, stderr], [7, ''])
        const queue = JSON.parse(readFileSync(out, 'utf8')).items.find((q) => q.name === 'q')
        equal([queue.reservation?.holder, queue.counts.running], ['me', 0])
        equal((await server.get('/queues/q')).body.reservation, null)
        equal((await ask('reserve', 'q', '--', 'sh', '-c', 'kill -TERM $$')).code, 128 + 15)
        equal((await ask('reserve', 'q', '--', '/nonexistent')).code, 127)
        const held = JSON.parse(await good(ask('reserve', 'q', '--json')))
        await refused(5, '', ask('reserve', 'q', '--wait-ms', '50'))
        await good(ask('reserve', 'q', '--renew', held.id))
        await good(ask('reserve', 'q', '--release', held.id))
        await refused(4, '', ask('reserve', 'q', '--release', held.id))
        await refused(2, 'no command', ask('reserve', 'q', '--release', held.id, '--', 'true'))
    }
})

test('a hold is renewed in time, and a command that lost it is told to stop', async (t) => {
    const server = await startServer(t)
    const cli = commands(server)
    const field = (name) => `${holdfast} queues --json --url ${server.address} | sed 's/.*"reservation":{//; s/.*"${name}":"\\([^"]*\\)".*/\\1/'`
    const renewed = `first=$(${field('expiresAt')}); until [ "$(${field('expiresAt')})" != "$first" ]; do sleep 0.05; done`
    const lost = `${holdfast} reserve q --release $(echo $(${field('id')})) --url ${server.address} >/dev/null; exec sleep 600`
    for (const ask of [cli, cli.store]) {
        equal((await ask('reserve', 'q', '--ttl-ms', '1500', '--', 'sh', '-c', renewed)).code, 0)
        await refused(4, '', ask('reserve', 'q', '--ttl-ms', '600', '--', 'sh', '-c', lost))
    }
})

test('those who execute are listed', async (t) => {
    const server = await startServer(t)
    const cli = commands(server)
    has(await good(cli('workers')), ' node ')
    await server.post('/claim', { queues: ['q'], worker: 'w1', session: 's1', claimId: 'c1', count: 1, waitMs: 0 })
    has(await good(cli('workers')), 'w1')
    equal(JSON.parse(await good(cli('workers', '--json'))).items.length, 2)
    await refused(2, 'no option', cli('workers', '--db', server.store))
})

test('events are printed, and followed', async (t) => {
    const server = await startServer(t)
    const cli = commands(server)
    const id = await server.enqueue('a')
    await server.post(`/jobs/${id}/cancel`)
    for (const ask of [cli, cli.store]) {
        has(await good(ask('tail')), `job.cancelled            job ${id}`)
        const events = (await good(ask('tail', '--job', id, '--json'))).trim().split('\n').map((line) => JSON.parse(line))
        check(events.some((e) => e.type === 'job.cancelled' && e.jobId === id), JSON.stringify(events))
        const { code, stdout } = await ask('tail', '--after', '1000000000')
        equal([code, stdout], [0, ''])
        await refused(2, "no job's id", ask('tail', '--job', 'x'))
    }
    await refused(2, 'a server can', cli.store('tail', '--type', 'job.*'))
    has(await good(cli('tail', '--type', 'job.*')), `job ${id}`)
    equal(await good(cli('tail', '--type', 'recovery.nothing')), '')
    await refused(2, 'type', cli('tail', '--type', 'a b'))
})

test('what happens is followed until nobody reads it', async (t) => {
    const server = await startServer(t)
    for (const place of [['--url', server.address], ['--db', server.store]]) {
        const child = spawn(holdfast, ['tail', '-f', '--after', '0', '--json', ...place], { env: clean })
        t.defer(() => child.kill('SIGKILL'))
        let text = ''
        child.stdout.on('data', (d) => (text += d))
        const ended = new Promise((done) => child.on('close', done))
        const id = await server.enqueue('a')
        await server.post(`/jobs/${id}/cancel`)
        await until('the event is printed', () =>
            text.split('\n').some((line) => line.includes('job.cancelled') && line.includes(id)))
        if (place[0] === '--db') {
            child.kill('SIGINT')
            await ended
            continue
        }
        let why = ''
        child.stderr.on('data', (d) => (why += d))
        await server.restart()
        equal(await ended, 6)
        has(why, 'go on with --after')
    }
})

test('a store in use is copied', async (t) => {
    const server = await startServer(t)
    const copy = join(t.folder, 'copy.db')
    const env = clean
    if (onPostgres) {
        await refused(2, 'pg_dump', run(['backup', copy, '--db', server.store], { env }))
        return
    }
    for (let i = 0; i < 50; i++) await server.enqueue('a')
    let stop = false
    const busy = (async () => {
        while (!stop) await server.enqueue('b')
    })()
    await good(run(['backup', copy, '--db', server.store], { env }))
    stop = true
    await busy
    has(await good(run(['check', '--db', copy], { env })), ' 0 violations')
    check(Number(sql(copy, "SELECT count(*) FROM jobs WHERE kind = 'a'")) === 50, 'the copy lacks jobs')
    await refused(4, 'there already', run(['backup', copy, '--db', server.store], { env }))
    await refused(3, 'none.db', run(['backup', `${copy}2`, '--db', join(t.folder, 'none.db')], { env }))
    await refused(9, 'none/x', run(['backup', join(t.folder, 'none/x'), '--db', server.store], { env }))
    equal(readdirPart(t.folder), [])
})

// What a backup may have left.
function readdirPart(folder) {
    return spawnSync('sh', ['-c', `ls "${folder}" | grep 'copy.db[.2]' | grep -v lock`], { encoding: 'utf8' })
        .stdout.split('\n').filter(Boolean)
}

test('the first line of a server says what to try, and it works', async (t) => {
    const child = spawn(holdfast, ['serve', '--listen', '127.0.0.1:0', '--worker-listen', 'off'],
        { env: clean, cwd: t.folder })
    t.defer(() => child.kill('SIGKILL'))
    let line = ''
    child.stdout.on('data', (d) => (line += d))
    await until('it listens', () => line.includes('\n'))
    const { status, stdout } = spawnSync('sh', ['-c', line.match(/Try: (.*)\n/)[1]], { env: clean, encoding: 'utf8' })
    check(status === 0 && /^[1-9][0-9]*\n$/.test(stdout), `${line}${stdout}`)
    const ended = new Promise((done) => child.on('exit', done))
    child.kill('SIGTERM')
    equal(await ended, 0)
})

test('long work shows how far it is, to a terminal alone', async (t) => {
    const server = await startServer(t)
    const file = join(t.folder, 'jobs.jsonl')
    writeFileSync(file, '{"kind":"a"}\n'.repeat(1500))
    const env = { ...clean, HOLDFAST_URL: server.address, TERM: 'xterm' }
    const typed = (words) => spawnSync('script', ['-qec', `${holdfast} ${words}`, '/dev/null'], { env, encoding: 'utf8' }).stdout
    has(typed(`enqueue --file ${file}`), '[####')
    has(typed('cancel --state queued --created-before 2000-01-01T00:00:00Z'), 'looking 0')
    const { stderr } = await run(['enqueue', '--file', file], { env })
    equal(stderr, '')
})
