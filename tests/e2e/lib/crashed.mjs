// SPDX-License-Identifier: Apache-2.0
//
// crashed.mjs -- a store in the state a kill -9 leaves when much was under way.
//
// Rows are written directly, as the engine would have left them, counters included:
// `holdfast check` says that the store awaits recovery, and nothing else.
import { check } from './test.mjs'
import { run, sql } from './server.mjs'

const onPostgres = (store) => store.startsWith('postgres')

// SELECT of jobs `from`+1 … `from`+count in this state.
function jobsSql(store, from, count, state, queue, now, payload) {
    const numbers = onPostgres(store)
        ? `SELECT i FROM generate_series(1, ${count}) AS i`
        : `WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < ${count}) SELECT i FROM s`
    return `INSERT INTO jobs (id, root_id, position, run_at, created_at, max_execution_us, project_id,
        queue_id, state, class, lane, priority, attempt, max_retries, retries_left, kind, retry_delays, payload)
        SELECT ${from} + n.i, ${from} + n.i, ${now} - 100000000 + n.i, ${now} - 100000000, ${now} - 100000000,
        60000000, 1, ${queue}, ${state}, 1, 0, 5, 1, 3, 3, 'http', '60,300,900', '${payload}' FROM (${numbers}) AS n;`
}

// The server must have been killed, and know the queue "default".
export async function leaveRunning(server, running, queued, url) {
    const { store } = server
    const [queue, owner] = sql(store, `SELECT (SELECT id FROM queues WHERE name = 'default'), (SELECT max(id) FROM owners WHERE state = 1)`).split('|')
    check(queue && owner, 'the server was killed, and knew the queue')
    const now = Date.now() * 1000
    const first = 10_000_000
    const payload = JSON.stringify({ url, method: 'GET' })
    const shard = onPostgres(store) ? owner : 0
    sql(store, `${onPostgres(store) ? '' : 'PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY;'}
        BEGIN;
        ${jobsSql(store, first, running, 3, queue, now, payload)}
        ${jobsSql(store, first + running, queued, 2, queue, now, payload)}
        INSERT INTO runs (job_id, owner_id, started_at, deadline_at, attention_at, executor)
            SELECT id, ${owner}, created_at, ${now} + 60000000, ${now} + 60000000, 3 FROM jobs WHERE id > ${first} AND state = 3;
        INSERT INTO counters (shard, queue_id) VALUES (${shard}, ${queue}) ON CONFLICT DO NOTHING;
        UPDATE counters SET accepted = accepted + ${running + queued}, running = running + ${running},
            queued = queued + ${queued} WHERE shard = ${shard} AND queue_id = ${queue};
        ${onPostgres(store) ? `SELECT setval('ids', ${first + running + queued + 1000})` : `UPDATE ids SET next = ${first + running + queued + 1000}`};
        COMMIT;
        ${onPostgres(store) ? '' : 'PRAGMA wal_checkpoint(TRUNCATE)'}`)
    const { code, stdout, stderr } = await run(['check', '--db', store])
    // (On PostgreSQL the node counts as alive until its lease is over.)
    check(code === 0 && (onPostgres(store) || stdout.includes(`${running} await recovery`)), `check says: ${stdout}${stderr}`)
    return { first, running, queued }
}
