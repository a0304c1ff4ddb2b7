// SPDX-License-Identifier: Apache-2.0
//
// metrics.mjs -- Prometheus' text format, read strictly.
import assert from 'node:assert/strict'

const series = /^([a-z_]+)(?:\{(.*)\})? (-?[0-9.e+]+)$/
const label = /([a-z]+)="((?:[^"\\]|\\.)*)"(,|$)/y

function readLabels(text) {
    const labels = {}
    label.lastIndex = 0
    while (text && label.lastIndex < text.length) {
        const found = label.exec(text)
        assert.ok(found, `labels: ${text}`)
        assert.ok(!(found[1] in labels), `${found[1]} twice: ${text}`)
        labels[found[1]] = found[2]
    }
    return labels
}

// { families: Map(name → { type, help }), values: Map(series → number), list: [{ name,
// labels, value }] }; what the format does not allow is an error.
export function readMetrics(text) {
    const families = new Map()
    const values = new Map()
    const list = []
    let current = null
    assert.ok(text.endsWith('\n'), 'the last line is cut')
    for (const line of text.slice(0, -1).split('\n')) {
        const [, word, name, rest] = line.match(/^# (HELP|TYPE) (\S+) (.+)$/) ?? []
        if (word === 'HELP') {
            assert.ok(!families.has(name), `${name} comes twice`)
            families.set(name, (current = { name, help: rest }))
        } else if (word === 'TYPE') {
            assert.equal(name, current.name)
            current.type = rest
        } else {
            const [, id, labels, value] = line.match(series) ?? assert.fail(`no series: ${line}`)
            const base = current.type === 'histogram' ? id.replace(/_(bucket|sum|count)$/, '') : id
            assert.equal(base, current.name, `${line} is not of ${current.name}`)
            const key = line.slice(0, line.lastIndexOf(' '))
            assert.ok(!values.has(key), `${key} comes twice`)
            values.set(key, Number(value))
            list.push({ name: id, labels: readLabels(labels), value: Number(value), family: current })
        }
    }
    return { families, values, list }
}

// Buckets rise, the last one is the count.
export function checkHistograms({ families, list }) {
    for (const [name, family] of families) {
        if (family.type !== 'histogram') continue
        const groups = new Map()
        for (const s of list.filter((x) => x.family === family)) {
            const { le, ...others } = s.labels
            const key = JSON.stringify(others)
            const group = groups.get(key) ?? groups.set(key, { buckets: [] }).get(key)
            if (s.name.endsWith('_bucket')) group.buckets.push([le === '+Inf' ? Infinity : Number(le), s.value])
            else group[s.name.slice(name.length + 1)] = s.value
        }
        for (const [key, { buckets, sum, count }] of groups) {
            const where = `${name}${key}`
            assert.equal(buckets.at(-1)[0], Infinity, where)
            assert.equal(buckets.at(-1)[1], count, where)
            for (let i = 1; i < buckets.length; i++) {
                assert.ok(buckets[i][0] > buckets[i - 1][0], `${where}: bounds`)
                assert.ok(buckets[i][1] >= buckets[i - 1][1], `${where}: counts`)
            }
            assert.ok(sum >= 0 && (count > 0 || sum === 0), `${where}: sum ${sum} of ${count}`)
        }
    }
}
