// SPDX-License-Identifier: Apache-2.0
//
// openapi.mjs -- holds answers to the description of the API.
//
// Every answer of every end-to-end test comes by here (client.mjs): a status, a type of
// content, a field or a value that src/api/openapi.json does not know fails the test; so
// does a request that was accepted though it is not described.
import { appendFileSync, readFileSync } from 'node:fs'

import Ajv from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

export const file = new URL('../../../src/api/openapi.json', import.meta.url)
export const description = JSON.parse(readFileSync(file, 'utf8'))

const ajv = new Ajv({ strict: true, strictRequired: false, allowUnionTypes: true, allErrors: true })
formats(ajv)

// A schema that refers to others of the document, as JSON Schema alone would have it.
const asJsonSchema = (schema) => JSON.stringify(schema).replaceAll('"#/components/schemas/', '"api#/$defs/')
ajv.addSchema({ $id: 'api', $defs: JSON.parse(asJsonSchema(description.components.schemas)) })

const compiled = new Map()

function validator(schema) {
    const text = asJsonSchema(schema)
    if (!compiled.has(text)) compiled.set(text, ajv.compile(JSON.parse(text)))
    return compiled.get(text)
}

const templates = Object.keys(description.paths).map((path) => ({ path, parts: path.split('/') }))

// The described path of a request; one with the word itself goes before one with {…}.
function findPath(path) {
    const parts = path.split('?')[0].split('/')
    return templates
        .filter((t) => t.parts.length === parts.length)
        .filter((t) => t.parts.every((part, i) => part.startsWith('{') || part === parts[i]))
        .sort((a, b) => a.path.split('{').length - b.path.split('{').length)
        .map((t) => t.path)
}

function findOperation(method, path) {
    const name = (method === 'HEAD' ? 'GET' : method).toLowerCase()
    for (const found of findPath(path))
        if (description.paths[found][name]) return description.paths[found][name]
    return null
}

const follow = (thing) =>
    thing?.$ref ? thing.$ref.slice(2).split('/').reduce((at, part) => at[part], description) : thing

// HTTP itself is refused like this, before any operation is looked for; see the
// description's first paragraph.
const refusals = [405, 408, 414, 417, 431, 501, 505]
const problem = { description: 'any path', ...description.components.responses.Invalid }

function describedAnswer(method, path, status) {
    const operation = findOperation(method, path)
    if (refusals.includes(status)) return problem
    if (!operation) return [400, 401, 403, 404].includes(status) ? problem : null
    return follow(operation.responses[status])
}

// Why an answer is not as described; null if it is.
export function fault(method, path, { status, headers, text, body }) {
    const described = describedAnswer(method, path, status)
    if (!described) return `the status ${status} is not described`
    if (status === 204) return text === '' ? null : 'there is a body with 204'
    const type = headers['content-type']?.split(';')[0]
    const content = described.content?.[type]
    if (!content) return `the type ${type} is not described for ${status}`
    if (method === 'HEAD' || !/json/.test(type)) return null
    const valid = validator(content.schema)
    if (valid(body)) return null
    return valid.errors.map((e) => `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`).join('; ')
}

// Why a request that was accepted is not as described; null if it is.
export function requestFault(method, path, sent) {
    const operation = findOperation(method, path)
    if (!operation) return 'there is no such operation'
    const parameters = (operation.parameters ?? []).map(follow).filter((p) => p.in === 'query')
    for (const name of new URLSearchParams(path.split('?')[1] ?? '').keys())
        if (!parameters.some((p) => p.name === (p.style === 'deepObject' ? name.split('.')[0] : name)))
            return `the parameter ${name} is not described`
    const schema = operation.requestBody?.content['application/json'].schema
    if (!sent) return operation.requestBody?.required ? 'a body is required' : null
    if (!schema) return 'a body is not described'
    const valid = validator(schema)
    return valid(JSON.parse(sent)) ? null : `the request: ${ajv.errorsText(valid.errors)}`
}

// What was answered, for the whole run: scripts/test says what no test has ever seen.
const seen = new Set()
process.on('exit', () => {
    if (process.env.HF_TEST_RUN)
        appendFileSync(`${process.env.HF_TEST_RUN}/answers`, [...seen].map((s) => `${s}\n`).join(''))
})

// Why an event of the stream is not as described; null if it is.
export function eventFault(data) {
    seen.add('followEvents 200')
    const valid = validator({ $ref: '#/components/schemas/Event' })
    return valid(data) ? null : `the event ${JSON.stringify(data)}: ${ajv.errorsText(valid.errors)}`
}

export function hold(method, path, sent, answer) {
    const why = fault(method, path, answer) ?? (answer.status < 300 ? requestFault(method, path, sent) : null)
    const operation = findOperation(method, path)
    if (operation) seen.add(`${operation.operationId} ${answer.status}`)
    if (why) throw new Error(`not as src/api/openapi.json says: ${method} ${path}: ${why}\n${answer.text}`)
}
