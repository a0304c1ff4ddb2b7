// SPDX-License-Identifier: Apache-2.0
//
// test: once
//
// The description of the API: sound, served as it is written, and able to tell what does
// not fit it.  That the answers fit is shown by every other test (lib/openapi.mjs).
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

import redocly from '@redocly/openapi-core'

import { description, fault, file, requestFault } from './lib/openapi.mjs'
import { startServer } from './lib/server.mjs'
import { check, equal, test } from './lib/test.mjs'

test('redocly finds nothing to say about the description', async () => {
    const config = await redocly.createConfig({ extends: ['recommended'], rules: { 'no-unused-components': 'error' } })
    const problems = await redocly.lint({ ref: fileURLToPath(file), config })
    const told = problems.map((p) => `${p.ruleId}: ${p.message} ${p.location[0]?.pointer ?? ''}`)
    equal(told, [])
})

test('the description is served as it is written to anybody', async (t) => {
    const server = await startServer(t, { env: { HOLDFAST_ADMIN_TOKEN: 'a-token-of-some-length' } })
    const answer = await server.fetch('GET', '/openapi.json')
    equal(answer.status, 200)
    equal(answer.body, description)
    equal((await server.fetch('GET', '/api/v1/version')).status, 401)
})

// An answer that is as described, and what a test of the API must notice in it.
test('an answer that is not as described is noticed', async (t) => {
    const server = await startServer(t)
    const good = await server.post('/jobs', { kind: 'a' })
    const path = '/api/v1/jobs'
    const wrong = (change, status = 201) => fault('POST', path, { ...good, status, body: { ...good.body, ...change } })
    equal(wrong({}), null)
    check(wrong({ colour: 'red' })?.includes('colour'), 'a field')
    check(wrong({ priority: '5' })?.includes('priority'), 'a type')
    check(wrong({ state: 'happy' })?.includes('state'), 'a word')
    check(wrong({ createdAt: 'today' })?.includes('createdAt'), 'a time')
    check(wrong({ id: 7 })?.includes('id'), 'an id')
    check(wrong({}, 202)?.includes('status'), 'a status')
    const { queue, ...less } = good.body
    check(fault('POST', path, { ...good, body: less })?.includes('queue'), `no ${queue}`)
    check(fault('POST', path, { ...good, headers: { 'content-type': 'text/html' } })?.includes('text/html'))
    check(fault('GET', '/nowhere', { ...good, status: 200 }), 'a path')
})

test('a request that is accepted though it is not described is noticed', () => {
    const jobs = '/api/v1/jobs'
    equal(requestFault('POST', jobs, '{"kind":"a"}'), null)
    equal(requestFault('GET', `${jobs}?state=failed&metadata.a=b&limit=5`), null)
    check(requestFault('POST', jobs, '{"kind":"a","colour":"red"}'), 'a field')
    check(requestFault('POST', jobs, '{"kind":"a","priority":10}'), 'a value')
    check(requestFault('POST', jobs, ''), 'no body')
    check(requestFault('GET', `${jobs}?colour=red`), 'a parameter')
    check(requestFault('GET', jobs, '{}'), 'a body')
    check(requestFault('GET', '/nowhere'), 'a path')
})

test('the lock file names exact versions and no registry', () => {
    const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'))
    for (const version of Object.values(read('package.json').dependencies)) check(/^\d+\.\d+\.\d+$/.test(version), version)
    for (const [name, entry] of Object.entries(read('package-lock.json').packages)) {
        check(!entry.resolved, `${name} is resolved: ${entry.resolved}`)
        check(name === '' || entry.integrity, `${name} has no hash`)
    }
})
