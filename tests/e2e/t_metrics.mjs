// SPDX-License-Identifier: Apache-2.0
//
// /metrics: what Prometheus accepts, what the manual lists, and figures that are right.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

import { checkHistograms, readMetrics } from './lib/metrics.mjs'
import { onPostgres, sql, startServer } from './lib/server.mjs'
import { check, equal, test, until } from './lib/test.mjs'

async function scrape(server) {
    const answer = await server.fetch('GET', '/metrics')
    equal(answer.status, 200)
    equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
    const metrics = readMetrics(answer.text)
    checkHistograms(metrics)
    return { ...metrics, text: answer.text, of: (key) => metrics.values.get(key) }
}

const config = `
[command good]
argv = /bin/true
[command bad]
argv = /bin/false
max_retries = 1
retry_delays_seconds = 600
`

// A server that has done a bit of everything.
async function busyServer(t) {
    const server = await startServer(t, { config })
    await server.outcome(await server.enqueue('good', { queue: 'fine' }))
    await server.outcome(await server.enqueue('bad', { queue: 'sad' }))
    await server.enqueue('nobodys', { queue: 'sad' })
    await server.refused(404, 'GET', '/nothing')
    await server.refused(400, 'POST', '/jobs', {})
    return server
}

test('promtool finds nothing to say about it', async (t) => {
    const { text } = await scrape(await busyServer(t))
    const promtool = fileURLToPath(new URL('../../scripts/promtool', import.meta.url))
    const told = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' })
    equal([told.status, told.stdout, told.stderr], [0, '', ''])
})

test('every name is in the manual with its type and labels and nothing else is', async (t) => {
    const { families, list } = await scrape(await busyServer(t))
    const manual = readFileSync(new URL('../../docs/METRICS.md', import.meta.url), 'utf8')
    const rows = [...manual.matchAll(/^\| `([a-z_]+)` \| (\w+) \| ([a-z, ]*)\|/gm)]
    const described = rows.map(([, name, type, labels]) => `${name} ${type} ${labels.trim()}`)
    const has = [...families].map(([name, { type, help }]) => {
        check(help.length > 0, name)
        const labels = new Set(list.filter((s) => s.family.name === name).flatMap((s) => Object.keys(s.labels)))
        labels.delete('le')
        return `${name} ${type} ${[...labels].join(', ')}`
    })
    equal(has.sort(), described.sort())
})

test('jobs are counted by queue and state', async (t) => {
    const server = await busyServer(t)
    const { of } = await scrape(server)
    equal(of('holdfast_jobs{queue="fine",state="completed"}'), 1)
    equal(of('holdfast_jobs{queue="sad",state="failed"}'), 1)
    equal(of('holdfast_jobs{queue="sad",state="scheduled"}'), 1)
    equal(of('holdfast_jobs{queue="sad",state="queued"}'), 1)
    equal(of('holdfast_jobs_accepted_total{queue="sad"}'), 3)
    equal(of('holdfast_jobs_enqueued_total'), 3)
    equal(of('holdfast_runs_started_total'), 2)
    equal(of('holdfast_runs_failed_total{type="other"}'), 1)
    equal(of('holdfast_retries_total'), 1)
    equal(['taken', 'released', 'expired'].map((action) => of(`holdfast_locks_total{action="${action}"}`)), [2, 2, 0])
    equal(of('holdfast_queue_wait_seconds_count'), 2)
    equal(of('holdfast_run_seconds_count{outcome="completed"}'), 1)
    equal(of('holdfast_run_seconds_count{outcome="failed"}'), 1)
    const kinds = ['good', 'bad'].map((kind) => ['completed', 'failed', 'cancelled'].map((o) => of(`holdfast_kind_runs_total{kind="${kind}",outcome="${o}"}`)))
    equal(kinds, [[1, 0, 0], [0, 1, 0]])
    check(of('holdfast_kind_run_seconds_total{kind="good",outcome="completed"}') > 0)
    equal(of('holdfast_kind_run_seconds_total{kind="good",outcome="failed"}'), 0)
    equal(of('holdfast_queue_paused{queue="sad"}'), 0)
    equal([of('holdfast_ready'), of('holdfast_store_up'), of('holdfast_oldest_overdue_run_age_seconds')], [1, 1, 0])
    equal(of('holdfast_recoveries_total{type="start"}'), 1)
    check(of('holdfast_commit_seconds_count') >= 5, 'commits')
    check(of('holdfast_batch_commands_sum') === of('holdfast_commands_total'), 'commands')
    check(onPostgres === of('holdfast_lease_seconds') > 0, 'the lease')
})

test('requests are counted by route and status and never by path', async (t) => {
    const server = await busyServer(t)
    for (const path of ['/a', '/b', '/api/v1/jobs/999999999']) await server.fetch('GET', path)
    const { of, text } = await scrape(server)
    equal(of('holdfast_http_requests_total{method="POST",route="/api/v1/jobs",status="201"}'), 3)
    equal(of('holdfast_http_requests_total{method="POST",route="/api/v1/jobs",status="400"}'), 1)
    equal(of('holdfast_http_requests_total{method="(any)",route="(none)",status="404"}'), 3)
    equal(of('holdfast_http_requests_total{method="GET",route="/api/v1/jobs/{id}",status="404"}'), 1)
    equal(of('holdfast_http_request_seconds_count{method="POST",route="/api/v1/jobs"}'), 4)
    check(of('holdfast_http_connections') >= 1 && of('holdfast_http_requests_under_way') >= 1)
    check(!text.includes('999999999'))
})

test('counters and histograms only rise', async (t) => {
    const server = await busyServer(t)
    const before = await scrape(server)
    await server.outcome(await server.enqueue('good', { queue: 'new' }))
    const after = await scrape(server)
    for (const { name, labels, value, family } of before.list) {
        if (family.type === 'gauge') continue
        const now = after.list.find((s) => s.name === name && JSON.stringify(s.labels) === JSON.stringify(labels))
        check(now && now.value >= value, `${name} ${JSON.stringify(labels)}: ${value}, then ${now?.value}`)
    }
    equal(after.of('holdfast_jobs_enqueued_total') - before.of('holdfast_jobs_enqueued_total'), 1)
})

test('the number of queues with series of their own is bounded', async (t) => {
    const server = await startServer(t)
    const jobs = Array.from({ length: 210 }, (_, i) => ({ kind: 'a', queue: `q${i}` }))
    await server.post('/jobs/batch', { jobs })
    const { of, list } = await scrape(server)
    const queues = new Set(list.filter((s) => s.name === 'holdfast_jobs').map((s) => s.labels.queue))
    equal(queues.size, 201)
    check(of('holdfast_jobs{queue="(other)",state="queued"}') >= 10)
    const sum = list.filter((s) => s.name === 'holdfast_jobs').reduce((n, s) => n + s.value, 0)
    equal(sum, 210)
})

test('the number of kinds with series of their own is bounded', async (t) => {
    const server = await startServer(t)
    const jobs = Array.from({ length: 103 }, (_, i) => ({ kind: `k${i}` }))
    await server.post('/jobs/batch', { jobs })
    const { runs } = (await server.post('/claim', { session: 's', count: 103 })).body
    equal(runs.length, 103)
    for (const { id } of runs) await server.post(`/runs/${id}/complete`, { session: 's' })
    const counted = async () => (await scrape(server)).list.filter((s) => s.name === 'holdfast_kind_runs_total' && s.value > 0)
    const series = await until('all are counted', async () => {
        const list = await counted()
        return list.reduce((n, s) => n + s.value, 0) === 103 && list
    })
    equal(series.length, 101)
    equal(series.at(-1).labels, { kind: '(other)', outcome: 'completed' })
    equal(series.at(-1).value, 3)
})

test('a store that cannot be read is a figure and no failed scrape', async (t) => {
    const server = await startServer(t, { unchecked: true }) // the schema is not what it was
    await server.enqueue('a') // figures come a moment after the answer
    await until('it is counted', async () => (await scrape(server)).of('holdfast_jobs_enqueued_total') === 1)
    const rename = (from, to) => sql(server.store, `ALTER TABLE ${onPostgres ? 'holdfast.' : ''}${from} RENAME TO ${to}`)
    rename('counters', 'elsewhere')
    const without = await scrape(server)
    equal(without.of('holdfast_store_up'), 0)
    check(!without.families.has('holdfast_jobs') && without.of('holdfast_jobs_enqueued_total') === 1)
    rename('elsewhere', 'counters')
    await until('it can be read', async () => (await scrape(server)).of('holdfast_store_up') === 1)
})

test('a recovery and the process itself are in figures', async (t) => {
    const server = await startServer(t, {
        config: "[command long]\nargv = /bin/sh -c 'echo ::progress 1 begun; exec sleep 600'\n",
    })
    const id = await server.enqueue('long')
    await until('it has begun', async () => (await server.get(`/jobs/${id}`)).body.progress?.text === 'begun')
    await server.kill()
    await server.start()
    await server.ready()
    const m = await scrape(server)
    equal(m.of('holdfast_recovered_jobs_total'), 1)
    equal(m.of('holdfast_recovery_seconds_count'), 1)
    equal(m.of('holdfast_node_runs'), 1)
    check(m.of('process_resident_memory_bytes') > 1 << 20 && m.of('process_open_fds') > 5)
    check(m.of('process_threads') >= 4 && m.of('process_max_fds') >= m.of('process_open_fds'))
    check(Math.abs(m.of('process_start_time_seconds') - Date.now() / 1000) < 3600)
    await server.post(`/jobs/${id}/cancel`)
    await server.outcome(id)
})
