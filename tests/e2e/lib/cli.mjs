// SPDX-License-Identifier: Apache-2.0
//
// cli.mjs -- a subcommand of the program, asked of a server.
//
//   const [server, ask] = await startCommand(t, 'webhooks')
//   await good(ask('add', 'ops', url))                 // exit code 0: its output
//   await refused(2, 'takes more', ask('add'))         // the code, and a part of the sentence
//   const { id } = await ask.json('show', 'ops')
import { run, startServer } from './server.mjs'
import { check, has } from './test.mjs'

export const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('HOLDFAST_')))

export async function startCommand(t, command, options) {
    const server = await startServer(t, options)
    const env = { ...clean, HOLDFAST_URL: server.address }
    const ask = (...args) => run([command, ...args], { env })
    ask.input = (input, ...args) => run([command, ...args], { env, input })
    ask.json = async (...args) => JSON.parse(await good(ask(...args, '--json')))
    ask.wide = (columns, ...args) => run([command, ...args], { env: { ...env, COLUMNS: String(columns) } })
    ask.as = (token, ...args) => run([command, ...args], { env: { ...env, HOLDFAST_TOKEN: token } })
    return [server, ask]
}

export async function good(asked) {
    const { code, stdout, stderr } = await asked
    check(code === 0 && stderr === '', `${code}: ${stdout}${stderr}`)
    return stdout
}

export async function refused(wanted, words, asked) {
    const { code, stdout, stderr } = await asked
    check(code === wanted, `exit code ${code}, not ${wanted}: ${stdout}${stderr}`)
    check(stderr.startsWith('holdfast: ') && stderr.trim().split('\n').length === 1, `one sentence: ${stderr}`)
    has(stderr, words)
}

// A table that people can read on a terminal of 80 columns: its lines.
export async function table(ask, ...args) {
    const text = await good(ask.wide(80, ...args))
    const lines = text.trimEnd().split('\n')
    for (const line of lines) check(line.length <= 80, `${line.length} columns: ${line}`)
    return lines
}
