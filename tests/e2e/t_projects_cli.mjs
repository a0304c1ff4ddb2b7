// SPDX-License-Identifier: Apache-2.0
//
// holdfast projects: made, shown, paused, and deleted with what is in them, until it is
// gone; what is typed wrong; and what a token that is bound to one may see of all this.
import { clean, good, refused, startCommand, table } from './lib/cli.mjs'
import { run } from './lib/server.mjs'
import { check, equal, has, test, until } from './lib/test.mjs'

const start = (t, options) => startCommand(t, 'projects', options)

test('a project is added, shown, listed, paused, resumed and deleted', async (t) => {
    const [server, ask] = await start(t)
    const told = await good(ask('add', 'shop'))
    check(/^Project shop \(\d+\)\n$/.test(told), told)
    await server.enqueue('k', { project: 'shop' })
    await server.post('/projects/shop/endpoints', { name: 'e', url: 'http://127.0.0.1:9', everyMs: 86400000 })
    await server.post('/schedules', { name: 's', kind: 'k', project: 'shop' })
    equal(await ask.json('show', 'shop'), (await server.get('/projects/shop')).body)
    const shown = await good(ask('show', 'shop'))
    for (const words of ['schedules          2', '  are endpoints    1', 'live jobs          1', 'finished jobs      0', 'state              active']) has(shown, words)
    equal(await good(ask('pause', 'shop')), 'shop is paused: 2 schedules and endpoints make no jobs; jobs that are there go on\n')
    const lines = await table(ask)
    equal(lines.map((l) => l.split(/ {2,}/).slice(1, 3)), [['NAME', 'STATE'], ['default', 'active'], ['shop', 'paused']])
    equal(await good(ask('resume', 'shop')), 'shop goes on, with 2 schedules and endpoints\n')
    equal((await ask.json('list')).items.map((p) => [p.name, p.paused]), [['default', false], ['shop', false]])
})

test('an empty project is deleted and one that is not is kept without cascade', async (t) => {
    const [server, ask] = await start(t)
    await good(ask('add', 'empty'))
    equal(await good(ask('delete', 'empty')), 'Project empty is deleted.\n')
    await server.refused(404, 'GET', '/projects/empty') // gone, not only on its way
    await good(ask('add', 'shop'))
    await server.post('/jobs/batch', { jobs: Array.from({ length: 500 }, () => ({ kind: 'k', project: 'shop' })) })
    await refused(4, '500 live and 0 finished jobs. To delete all of it, ask for cascade=true. (Here that is --cascade.)', ask('delete', 'shop'))
    equal((await server.get('/projects/shop')).body.holds.liveJobs, 500)
    equal(await ask.json('delete', 'shop', '--cascade'), { deleted: 'shop', gone: true })
    await server.refused(404, 'GET', '/projects/shop')
    await refused(4, 'cannot be deleted', ask('delete', 'default', '--cascade'))
})

test('a deletion that takes long is waited for as long as was asked', async (t) => {
    const [server, ask] = await start(t)
    await good(ask('add', 'shop'))
    const id = await server.enqueue('k', { project: 'shop' })
    const { body } = await server.post('/claim', { worker: 'w', session: 's1', queues: ['default'], count: 1 })
    equal(body.runs.map((r) => r.id), [id]) // and held
    equal(await good(ask('delete', 'shop', '--cascade', '--wait-ms', '0')), 'Project shop is being deleted.\n')
    await refused(5, 'shop is still being deleted after 100 ms: 1 live and 0 finished jobs are left', ask('delete', 'shop', '--wait-ms', '100'))
    check(/ shop +deleting /.test((await table(ask)).join('\n')))
    has(await good(ask('show', 'shop')), 'state              deleting')
    await refused(4, 'being deleted', ask('pause', 'shop'))
    const waiting = ask('delete', 'shop', '--cascade')
    await server.post(`/runs/${id}/fail`, { session: 's1', error: { type: 'other', message: 'stopped' } })
    equal(await good(waiting), 'Project shop is deleted.\n')
})

test('what is typed wrong is told, with an exit code', async (t) => {
    const [server, ask] = await start(t)
    await good(ask('add', 'shop'))
    await refused(2, 'cannot "rm"; it can list, show, add, pause, resume and delete.', ask('rm', 'shop'))
    await refused(2, 'did you mean delete?', ask('delte', 'shop'))
    await refused(2, 'takes more than that: holdfast projects add NAME', ask('add'))
    await refused(2, 'takes less than that: holdfast projects list', ask('list', 'shop'))
    await refused(2, '--cascade is no option of "holdfast projects show"', ask('show', 'shop', '--cascade'))
    await refused(2, 'it must have 1 to 100', ask('add', 'a b'))
    await refused(2, 'no project\'s name', ask('show', '../jobs'))
    await refused(2, 'no project\'s name', ask('delete', '', '--cascade'))
    await refused(3, 'no project "none"', ask('show', 'none'))
    await refused(3, 'no project "none"', ask('delete', 'none', '--cascade'))
    await refused(4, 'already', ask('add', 'shop'))
    await refused(2, '--wait-ms is "soon"', ask('delete', 'shop', '--wait-ms', 'soon'))
    await refused(2, 'no option', run(['projects', '--db', server.store], { env: clean }))
    await refused(6, '127.0.0.1:1', run(['projects', '--url', 'http://127.0.0.1:1'], { env: clean }))
    equal((await ask.json()).items.map((p) => p.name), ['default', 'shop'])
})

test('a token that is bound to a project sees that one in every list', async (t) => {
    const admin = 'the-token-of-the-admin'
    const [server, ask] = await start(t, { env: { HOLDFAST_ADMIN_TOKEN: admin } })
    await refused(10, 'HOLDFAST_TOKEN is where a token goes', ask())
    server.token = admin
    await until('tokens are read', async () => (await server.fetch('GET', '/api/v1/projects')).status === 200)
    await good(ask.as(admin, 'add', 'shop'))
    for (const project of ['default', 'shop']) await server.post(`/projects/${project}/endpoints`, { name: 'e', url: 'http://a' })
    const { token } = (await server.post('/tokens', { name: 'web', role: 'viewer', project: 'shop' })).body
    const as = (...args) => run(args, { env: { ...clean, HOLDFAST_URL: server.address, HOLDFAST_TOKEN: token } })
    equal(JSON.parse(await good(as('projects', '--json'))).items.map((p) => p.name), ['shop'])
    equal(JSON.parse(await good(as('endpoints', '--json'))).items.map((e) => e.project), ['shop'])
    equal(JSON.parse(await good(as('endpoints', 'show', 'e', '--json'))).project, 'shop')
    await refused(10, 'role viewer; this needs the role operator', as('endpoints', 'run', 'e'))
    await refused(3, 'no project "default"', as('endpoints', 'list', '--project', 'default'))
    await refused(10, 'role viewer', as('projects', 'delete', 'shop', '--cascade'))
})
