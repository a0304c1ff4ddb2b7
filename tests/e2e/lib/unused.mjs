// SPDX-License-Identifier: Apache-2.0
//
// unused.mjs -- what of the API the end-to-end tests have not used: reads lines such as
// "getJob 200" (openapi.mjs writes them), and prints what is described and never came.
import { readFileSync } from 'node:fs'

import { description } from './openapi.mjs'

const seen = new Set(readFileSync(0, 'utf8').trim().split('\n'))
const operations = Object.values(description.paths).flatMap((path) => Object.values(path))
const described = operations.flatMap((o) => Object.keys(o.responses).map((status) => `${o.operationId} ${status}`))
const unused = operations
    .map((o) => o.operationId)
    .filter((id) => !described.some((d) => d.startsWith(`${id} 2`) && seen.has(d)))

console.log(`\n${described.filter((d) => seen.has(d)).length} of ${described.length} described answers were seen, ` +
    `${operations.length - unused.length} of ${operations.length} operations succeeded${unused.length ? `; not: ${unused.join(', ')}` : ''}`)
