// SPDX-License-Identifier: Apache-2.0
//
// Looking for jobs over HTTP: every filter, pages that stay right while rows change,
// and every way to ask wrongly.
import { sql, startServer } from './lib/server.mjs'
import { check, equal, has, test } from './lib/test.mjs'

const ids = (answer) => answer.body.items.map((job) => job.id)
const newestFirst = (list) => [...list].sort((a, b) => Number(BigInt(b) - BigInt(a)))

// All pages, one after another; `between` is done after each.
async function all(server, query, between = async () => {}) {
    const found = []
    let cursor = null
    do {
        const page = (await server.get(`/jobs?${query}${cursor ? `&cursor=${cursor}` : ''}`)).body
        found.push(...page.items.map((job) => job.id))
        cursor = page.nextCursor
        await between(page)
    } while (cursor)
    return found
}

test('every filter finds its jobs and only these', async (t) => {
    const server = await startServer(t, { config: '[command fail]\nargv = /bin/false\nmax_retries = 0\n' })
    const plain = await server.enqueue('a', { queue: 'one', payload: { to: 'Anna Ärger' } })
    const keyed = await server.enqueue('b', { queue: 'two', uniqueKey: 'Key-1', metadata: { team: 'x', 'we.ird"': 'ü' } })
    const later = await server.enqueue('b', { queue: 'two', delayMs: 3600000, metadata: { team: 'y' } })
    const large = await server.enqueue('c', { payload: { text: `${'x'.repeat(2000)}Needle` } })
    const over = await server.enqueue('d')
    await server.post(`/jobs/${over}/cancel`, { reason: 'no' })
    const failed = await server.enqueue('fail')
    await server.outcome(failed)
    const error = (await server.get(`/jobs/${failed}`)).body.error.message
    const everything = [failed, over, large, later, keyed, plain]

    const cases = [
        ['', everything],
        ['state=queued', [large, keyed, plain]],
        ['state=scheduled', [later]],
        ['state=scheduled,queued', [large, later, keyed, plain]],
        ['state=running', []],
        ['state=cancelled', [over]],
        ['state=failed', [failed]],
        ['state=failed,scheduled', [failed, later]],
        ['state=failed&final=true', [failed]],
        ['final=true', [failed]],
        ['state=failed&final=false', []],
        ['final=false', [over, large, later, keyed, plain]],
        ['queue=two', [later, keyed]],
        ['queue=nobody', []],
        ['kind=b', [later, keyed]],
        ['kind=b&state=queued', [keyed]],
        ['project=default&kind=a', [plain]],
        ['uniqueKey=Key-1', [keyed]],
        ['uniqueKey=key-1', []],
        ['metadata.team=x', [keyed]],
        ['metadata.team=', []],
        ['metadata.team=y&state=scheduled', [later]],
        [`metadata.${encodeURIComponent('we.ird"')}=${encodeURIComponent('ü')}`, [keyed]],
        ['q=anna', [plain]],
        ['q=KEY-1', [keyed]],
        ['q=needle', [large]],
        [`q=${encodeURIComponent(error.slice(0, 12))}`, [failed]],
        ['q=%25', []],
        ['createdAfter=2020-01-01T00:00:00Z', everything],
        ['createdAfter=2090-01-01T00:00:00Z', []],
        ['createdBefore=2020-01-01T00:00:00Z', []],
        ['createdBefore=2090-01-01T00:00:00Z&kind=a', [plain]],
    ]
    for (const [query, wanted] of cases) {
        equal(ids(await server.get(`/jobs?${query}`)), newestFirst(wanted), query)
        equal(await all(server, `${query}${query ? '&' : ''}limit=1`), newestFirst(wanted), `${query}, one by one`)
    }
    const shown = (await server.get('/jobs?kind=c')).body.items[0]
    equal(shown, (await server.get(`/jobs/${large}`)).body)
})

test('pages stay right while rows change', async (t) => {
    const server = await startServer(t)
    const jobs = Array.from({ length: 25 }, () => ({ kind: 'a', queue: 'q' }))
    const there = (await server.post('/jobs/batch', { jobs })).body.ids
    let turn = 0
    const found = await all(server, 'queue=q&limit=4', async () => {
        await server.post('/jobs/batch', { jobs: jobs.slice(0, 3) })
        await server.post(`/jobs/${there[turn++]}/cancel`)
    })
    equal(new Set(found).size, found.length, 'none comes twice')
    equal(found, newestFirst(there), 'none is missing, and none is newer than the first page')
    const waiting = await all(server, 'state=queued&limit=4', async (page) => {
        if (page.items.length) await server.post(`/jobs/${page.items[0].id}/cancel`)
    })
    equal(new Set(waiting).size, waiting.length)
    check(there.slice(turn).every((id) => waiting.includes(id)))
})

test('a rare job in a long history is found in bounded pages', async (t) => {
    const server = await startServer(t)
    const rare = await server.enqueue('rare')
    await server.post(`/jobs/${rare}/cancel`)
    // History as it stands in rows, and the counters that go with it.
    const common = await server.enqueue('common')
    await server.post(`/jobs/${common}/cancel`)
    const columns = sql(server.store, server.store.startsWith('postgres')
        ? "SELECT string_agg(column_name, ',') FROM information_schema.columns WHERE table_name = 'jobs'"
        : "SELECT group_concat(name) FROM pragma_table_info('jobs')")
    const copied = columns.replace(/(^|,)id(,|$)/, '$1 1000000 + n $2').replace(/(^|,)root_id(,|$)/, '$1 1000000 + n $2')
    sql(server.store, `INSERT INTO jobs (${columns}) WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 120000) SELECT ${copied} FROM jobs CROSS JOIN g WHERE id = ${common}`)
    sql(server.store, 'UPDATE counters SET accepted = accepted + 120000, cancelled = cancelled + 120000 WHERE accepted > 0')
    const pages = []
    equal(await all(server, 'kind=rare', async (page) => pages.push(page)), [rare])
    check(pages.length >= 3, `${pages.length} pages for 120,000 rows`)
    equal(pages[0].items, [])
    const old = await server.enqueue('rare')
    sql(server.store, `UPDATE jobs SET id = 7, root_id = 7 WHERE id = ${old}`)
    equal(ids(await server.get('/jobs?state=queued')), ['7'], 'what waits has an index of its own')
    await server.post('/jobs/7/cancel')
})

test('what is wrong with a filter is told with its name', async (t) => {
    const server = await startServer(t)
    for (const [query, field] of [
        ['state=waiting', 'state'], ['state=', 'state'], ['state=queued,', 'state'], ['final=yes', 'final'],
        ['queue=a%20b', 'queue'], ['kind=', 'kind'], ['project=%2F', 'project'], ['uniqueKey=', 'uniqueKey'],
        [`uniqueKey=${'x'.repeat(501)}`, 'uniqueKey'], ['q=', 'q'], ['createdAfter=yesterday', 'createdAfter'],
        ['createdBefore=2026-01-01', 'createdBefore'], ['limit=0', 'limit'], ['limit=1001', 'limit'],
        ['limit=x', 'limit'], ['cursor=0', 'cursor'], ['cursor=abc', 'cursor'], ['cursor=-1', 'cursor'],
    ])
        equal((await server.refused(400, 'GET', `/jobs?${query}`)).field, field, query)
    for (const query of ['colour=red', 'state=queued&state=failed', 'metadata=x', 'metadata.=x'])
        await server.refused(400, 'GET', `/jobs?${query}`)
    has((await server.refused(404, 'GET', '/jobs?project=nobodys')).detail, 'nobodys')
    await server.refused(405, 'DELETE', '/jobs').catch((e) => has(e.message, 'no sentence'))
})
