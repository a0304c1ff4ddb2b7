// SPDX-License-Identifier: Apache-2.0
//
// server.mjs -- a real `holdfast serve` on a store of its own.
//
//   const server = await startServer(t, { settings: { lease_ms: 1000 }, config: '[queue q]…' })
//   const job = await server.post('/jobs', { kind: 'hello' })       // 201, checked
//   await server.kill()        // SIGKILL        await server.stop()   // SIGTERM
//   await server.start()       // again, on the same store
//
// The store is SQLite or, where HF_TEST_DB is a postgres:// url, a database of its own
// on that server.  At the end of a test the server is stopped and `holdfast check` must
// find nothing.
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

import { Client } from './client.mjs'
import { check, until } from './test.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
export const holdfast = resolve(root, process.env.BUILD ?? 'build', 'holdfast')

const postgres = /^postgres(ql)?:/.test(process.env.HF_TEST_DB ?? '')
    ? process.env.HF_TEST_DB
    : null
export const onPostgres = postgres !== null

// A new store, gone with the test: its name for --db.
export function makeStore(t, name = 'jobs') {
    if (!postgres) return join(t.folder, `${name}.db`)
    const database = `hf_e2e_${process.pid}_${randomBytes(4).toString('hex')}`
    const psql = (sql) => execFileSync('psql', ['-qAtc', sql, postgres], { stdio: 'pipe' })
    psql(`CREATE DATABASE ${database}`)
    t.defer(() => psql(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`))
    return postgres.replace(/\/[^/?]*(\?|$)/, `/${database}$1`)
}

// Runs SQL on a store from outside; the rows as text, columns separated by |.
export function sql(store, text) {
    const [program, args] = store.startsWith('postgres')
        ? ['psql', ['-qAtc', `SET search_path = holdfast; ${text}`, store]]
        : ['sqlite3', ['-cmd', '.timeout 10000', store, text]]
    const env = { ...process.env, PGOPTIONS: '-c search_path=holdfast' } // our schema
    return execFileSync(program, args, { encoding: 'utf8', env }).trim()
}

// Runs the program to its end.
export function run(args, options = {}) {
    return new Promise((done) => {
        const child = spawn(holdfast, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] })
        let stdout = ''
        let stderr = ''
        child.stdout.on('data', (d) => (stdout += d))
        child.stderr.on('data', (d) => (stderr += d))
        child.stdin.on('error', () => {})
        child.stdin.end(options.input ?? '')
        child.on('close', (code, signal) => done({ code, signal, stdout, stderr }))
    })
}

// Kills the commands of a server that is gone, and their supervisors: their pids.
function killSupervisors(folder) {
    const killed = []
    for (const pid of readdirSync('/proc').filter((p) => /^\d+$/.test(p))) {
        try {
            const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
            if (words[1] !== 'supervise' || !words[2]?.startsWith(folder)) continue
            const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
            process.kill(Number(pid), 'SIGKILL')
            killed.push(pid)
            for (const child of children) if (child) process.kill(-Number(child), 'SIGKILL')
        } catch {
            // gone meanwhile
        }
    }
    return killed
}

// Nobody can take it for alive.
function isDead(pid) {
    try {
        return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    } catch {
        return true
    }
}

export class Server extends Client {
    constructor(t, options) {
        super()
        this.t = t
        this.options = options
        this.store = options.store ?? makeStore(t)
        this.stateDir = options.stateDir ?? join(t.folder, `state-${randomBytes(3).toString('hex')}`)
        this.stderr = ''
        this.child = null
    }

    arguments() {
        const { settings = {}, config, listen = '127.0.0.1:0' } = this.options
        const args = ['serve', '--db', this.store, '--listen', listen]
        const all = { state_dir: this.stateDir, worker_listen: 'off', ...settings }
        for (const [name, value] of Object.entries(all)) args.push('--set', `${name}=${value}`)
        if (config !== undefined) {
            this.configFile ??= join(this.t.folder, `${randomBytes(3).toString('hex')}.conf`)
            writeFileSync(this.configFile, config)
            args.push('--config', this.configFile)
        }
        return args
    }

    // Resolves when it listens; rejects with what it said if it ends before.
    start() {
        check(!this.child, 'it runs already')
        const [program, ...args] = [...(this.options.under ?? []), holdfast, ...this.arguments()]
        const child = spawn(program, args, {
            stdio: ['ignore', 'pipe', 'pipe'],
            env: { ...process.env, ...this.options.env },
            cwd: this.t.folder,
        })
        this.child = child
        this.exited = new Promise((done) =>
            child.on('exit', (code, signal) => {
                if (this.child === child) this.child = null
                done({ code, signal })
            }),
        )
        child.stderr.on('data', (d) => {
            this.stderr += d
            this.t.log.push(String(d))
        })
        return new Promise((done, failed) => {
            let stdout = ''
            child.stdout.on('data', (d) => {
                stdout += d
                const address = stdout.match(/listening on (\S+), /)?.[1]
                if (!address) return
                this.setAddress(address)
                done(this)
            })
            this.exited.then(({ code, signal }) =>
                failed(new Error(`the server ended (${code ?? signal}): ${this.stderr}`)),
            )
        })
    }

    // Sends a signal and waits for the end: { code, signal }.
    async end(signal) {
        this.closeConnections()
        if (!this.child) return this.exited
        this.child.kill(signal)
        return this.exited
    }
    // First the signal: who hangs up on a server that still lives cancels its calls.
    kill() {
        this.child?.kill('SIGKILL')
        return this.end('SIGKILL')
    }
    // As when the machine goes: the commands it runs end with it.
    async killAll() {
        const ended = await this.kill()
        const killed = killSupervisors(this.t.folder)
        await until('its supervisors are dead', () => killed.every(isDead))
        return ended
    }
    async stop() {
        const ended = await this.end('SIGTERM')
        check(ended.code === 0, `a graceful stop ended with ${JSON.stringify(ended)}`)
        return ended
    }
    async restart() {
        await this.stop()
        return this.start()
    }

    async ready() {
        await until('the server is ready', async () => (await this.fetch('GET', '/readyz')).status === 200)
        return this
    }

    // The outcome of a job, waited for.
    async outcome(id) {
        return until(`job ${id} has ended`, async () => {
            const job = (await this.get(`/jobs/${id}?waitMs=10000`)).body
            return ['completed', 'failed', 'cancelled'].includes(job.state) && job
        })
    }
}

export async function startServer(t, options = {}) {
    const server = new Server(t, options)
    t.defer(async (failed) => {
        const ended = await (failed ? server.kill() : server.end('SIGTERM'))
        killSupervisors(t.folder)
        if (failed || options.unchecked) return
        const { code, stdout, stderr } = await run(['check', '--db', server.store])
        check(code === 0, `holdfast check found (${code}): ${stdout}${stderr}`)
        check(ended.signal !== 'SIGSEGV' && ended.signal !== 'SIGABRT', 'the server crashed')
    })
    await server.start()
    return server
}
