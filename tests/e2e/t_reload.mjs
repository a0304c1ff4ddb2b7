// SPDX-License-Identifier: Apache-2.0
//
// SIGHUP: what changes while the server runs, what is said to need a restart, and a
// file with a mistake that changes nothing.
import { startServer } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

async function reload(server, config, word = 'reloaded') {
    const said = server.stderr.length
    server.options.config = config
    server.arguments() // writes the file
    server.child.kill('SIGHUP')
    await until(`the server says ${word}`, () => server.stderr.slice(said).includes(` ${word}`))
    return server.stderr.slice(said)
}

test('the log changes its level and its form', async (t) => {
    const server = await startServer(t, { config: 'log_level = info\n' })
    has(await reload(server, 'log_level = debug\nlog_format = json\n', 'setting_changed'), 'log_level is now debug')
    await until('it speaks JSON', () => /^\{.*"reloaded".*\}$/m.test(server.stderr))
    const said = await reload(server, 'log_level = error\n', 'is now error')
    await server.stop()
    check(!server.stderr.slice(server.stderr.lastIndexOf(said)).includes('stopping'), 'only errors are told')
})

test('what needs a restart stays as it is and is said', async (t) => {
    const server = await startServer(t, { config: 'lease_ms = 30000\n' })
    const said = await reload(server, 'lease_ms = 20000\ndeny_networks = 10.0.0.0/8\n')
    has(said, 'lease_ms is to be 20000')
    has(said, 'deny_networks is to be 10.0.0.0/8')
    has(said, 'needs a restart')
})

test('a mistake in the file is said and changes nothing', async (t) => {
    const server = await startServer(t, { config: '[queue q]\nslots = 3\n' })
    const said = await reload(server, '[queue q]\nslots = 4\nslotz = 1\n', 'reload_refused')
    has(said, 'slotz')
    await server.ready()
    await until('the queue is there', async () => (await server.fetch('GET', '/api/v1/queues/q')).status === 200)
    equal((await server.get('/queues/q')).body.slots, 3)
})

test('a queue follows its section, and is free when that is gone', async (t) => {
    const server = await startServer(t, { config: '[queue q]\nslots = 3\nconcurrency = 7\n' })
    const slots = async () => (await server.get('/queues/q')).body.slots
    await until('it is there', async () => (await server.fetch('GET', '/api/v1/queues/q')).status === 200)
    await server.refused(409, 'PATCH', '/queues/q', { slots: 9 })
    await reload(server, '[queue q]\nslots = 5\n')
    await until('it has five', async () => (await slots()) === 5)
    await server.refused(409, 'PATCH', '/queues/q', { slots: 9 })
    await server.patch('/queues/q', { concurrency: 8 }) // no longer named
    await reload(server, '')
    await until('it is free', async () => (await server.fetch('PATCH', '/api/v1/queues/q', { slots: 9 })).status === 200)
    equal(await slots(), 9)
})

test('a section that went while the server was down is no longer fixed', async (t) => {
    const server = await startServer(t, { config: '[queue q]\nslots = 3\n' })
    await until('the queue is there', async () => (await server.fetch('GET', '/api/v1/queues/q')).status === 200)
    await server.stop()
    server.options.config = ''
    await server.start()
    await until('it is free', async () => (await server.fetch('PATCH', '/api/v1/queues/q', { slots: 9 })).status === 200)
})

test('a command comes, changes and goes, and jobs that wait follow', async (t) => {
    const greet = (word) => `[command greet]\nargv = /bin/sh -c 'echo "{\\"word\\":\\"${word}\\"}"'\nqueue = polite\nmax_retries = 0\n`
    const server = await startServer(t, { config: '' })
    const waits = await server.enqueue('greet')
    await reload(server, greet('hello'))
    equal((await server.outcome(waits)).result, { word: 'hello' })
    await reload(server, greet('goodbye'))
    const second = await server.outcome(await server.enqueue('greet'))
    equal([second.result, second.queue, second.maxRetries], [{ word: 'goodbye' }, 'polite', 0])
    await reload(server, '')
    const third = await until('it is for remote workers', async () => {
        const job = (await server.post('/jobs', { kind: 'greet' })).body
        return job.queue === 'default' && job
    })
    const other = await server.enqueue('http', { payload: { url: `${server.address}/healthz`, method: 'GET' } })
    equal((await server.outcome(other)).state, 'completed')
    check(['queued', 'running'].includes((await server.get(`/jobs/${third.id}`)).body.state))
    equal((await server.get(`/jobs/${third.id}`)).body.state, 'queued')
})

test('the limit of a body changes', async (t) => {
    const server = await startServer(t, { config: 'max_body_bytes = 4096\n' })
    const large = { kind: 'a', payload: 'x'.repeat(5000) }
    await server.refused(413, 'POST', '/jobs', large)
    await reload(server, 'max_body_bytes = 65536\n')
    equal((await server.post('/jobs', large)).status, 201)
})

test('the hosts that browsers may name change', async (t) => {
    const server = await startServer(t, { config: '' })
    const ask = async () => (await server.fetch('GET', '/api/v1/queues', undefined, { headers: { host: 'jobs.example.com' } })).status
    equal(await ask(), 403)
    await reload(server, 'allowed_hosts = jobs.example.com\n')
    equal(await ask(), 200)
})

test('how a stop treats commands changes', async (t) => {
    const command = `[command wait]\nargv = /bin/sh -c 'echo before; sleep 600'\nretry_delays_seconds = 3600\n`
    const server = await startServer(t, { config: `shutdown_commands = leave\nshutdown_grace_ms = 0\n${command}` })
    const id = await server.enqueue('wait')
    await until('it runs', async () => (await server.get(`/jobs/${id}`)).body.state === 'running')
    await reload(server, `shutdown_commands = stop\nshutdown_grace_ms = 0\n${command}`)
    await server.stop()
    server.options.config = ''
    await server.start()
    equal((await server.get(`/jobs/${id}`)).body.error.type, 'interrupted')
})
