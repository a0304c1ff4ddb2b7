// SPDX-License-Identifier: Apache-2.0
//
// test.mjs -- tests of the real server, in the form scripts/test counts (TAP).
//
//   import { test, check, equal } from './lib/test.mjs'
//   test('a job is enqueued and shown', async (t) => { ... t.defer(() => ...) })
//
// Tests of a file run one after another, each with a folder of its own that is gone
// afterwards; what was deferred is done in reverse order, also after a failure.
// HF_TEST_ONLY names a part of the tests' names to run only those.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const tests = []

export function test(name, body) {
    tests.push({ name: name.replaceAll(' ', '_'), body })
}

export const equal = assert.deepEqual
export const check = (condition, why) => assert.ok(condition, why)

// The part must be in the text.
export function has(text, part) {
    if (!String(text).includes(part)) assert.fail(`"${part}" is not in: ${text}`)
}

// Waits for a condition, never for a time: the limit is only for when it never holds.
export async function until(what, condition, limitMs = 60_000) {
    const end = Date.now() + limitMs
    for (;;) {
        const got = await condition()
        if (got) return got
        if (Date.now() > end) assert.fail(`waited in vain until ${what}`)
        await new Promise((next) => setTimeout(next, 20))
    }
}

export function note(text) {
    console.log(`# note: ${text}`)
}

async function runOne({ body }) {
    const deferred = []
    const folder = mkdtempSync(join(tmpdir(), 'hf-e2e-'))
    const t = { folder, log: [], defer: (fn) => deferred.push(fn) }
    let error = null
    try {
        await body(t)
    } catch (e) {
        error = e
    }
    for (const fn of deferred.reverse()) {
        try {
            await fn(error !== null)
        } catch (e) {
            error ??= e
        }
    }
    rmSync(folder, { recursive: true, force: true })
    if (error && t.log.length) error.log = t.log.join('')
    return error
}

async function runAll() {
    const only = process.env.HF_TEST_ONLY
    const chosen = tests.filter((t) => !only || t.name.includes(only))
    let failed = 0
    console.log(`1..${chosen.length}`)
    for (const [i, t] of chosen.entries()) {
        const error = await runOne(t)
        if (!error) {
            console.log(`ok ${i + 1} - ${t.name}`)
            continue
        }
        failed++
        console.log(`not ok ${i + 1} - ${t.name}`)
        const text = `${error.stack ?? error}\n${error.log ? `--- log\n${error.log}` : ''}`
        for (const line of text.split('\n')) console.log(`# ${line}`)
    }
    process.exit(failed ? 1 : 0)
}

// After the file has registered its tests.
setImmediate(runAll)
