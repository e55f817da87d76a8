import { estimate } from '../statistics/statistics.js'
import {
  figures,
  formatEstimate,
  formatNumber,
  latencies,
  measuredOf,
  type Numbers,
  numbersOf,
  parts,
  textsOf,
} from './figures.js'
import { loadName, type RunResult } from './run-result.js'
import type { ComparedLoad, Ratio } from '../compare/compare-runs.js'
import Table from 'cli-table3'

/** A run as text for the terminal. */
export function runTable({ summary, target, load, repeat, warnings, failures }: RunResult): string {
  const rows = Object.entries(latencies).flatMap(([name, key]) => {
    const values = summary[key]
    return values === undefined
      ? []
      : [[`${name} ms`, ...parts.map((part) => formatNumber(values[part]))]]
  })
  const { goodput } = summary
  const lines = textsOf(
    `${target.name}, ${loadName(load)}, run ${repeat}`,
    requestLine(summary.requests),
    `${formatNumber(summary.requestsPerSecond)} requests/s, ${formatNumber(summary.outputTokensPerSecond)} output tokens/s, ${formatNumber(summary.totalTokensPerSecond)} tokens/s in total, ${formatNumber(summary.durationMs / 1000)} s`,
    goodput !== undefined &&
      `goodput ${formatNumber(goodput.requestsPerSecond)} requests/s, ${formatNumber(100 * goodput.share)} % of all`,
    `stability ${formatNumber(summary.stability)}${summary.jain === undefined ? '' : `, Jain index of ${summary.tenants.length} tenants ${formatNumber(summary.jain)}`}`,
    rows.length > 0 && textTable(['', ...parts], rows),
    ...Object.entries(failures).map(([kind, message]) => `failed with ${kind}: ${message}`),
    ...warnings.map((warning) => `warning: ${warning}`),
  )
  return `${lines.join('\n')}\n\n`
}

function requestLine(requests: RunResult['summary']['requests']): string {
  const { total, ok, failed, cancelled, interrupted, errors } = requests
  const kinds = Object.entries(errors).map(([kind, count]) => `${count} ${kind}`)
  return textsOf(
    `${total} requests: ${ok} ok`,
    `${failed} failed${kinds.length > 0 ? ` (${kinds.join(', ')})` : ''}`,
    cancelled > 0 && `${cancelled} cancelled`,
    interrupted > 0 && `${interrupted} interrupted`,
  ).join(', ')
}

/** Repeated runs of one load: each figure's mean with its 95 % interval. */
export function repeatTable(runs: readonly RunResult[]): string {
  const [first] = runs
  if (first === undefined || runs.length < 2) return ''
  const all = runs.map(({ summary }) => numbersOf(summary))
  const table = numbersTable([['mean (95 % interval)', all]])
  return `${first.target.name}, ${loadName(first.load)}, ${runs.length} runs\n${table}\n\n`
}

/**
 * A row for each name, and a column for each number that was measured; of a single name, a row for each number. Of
 * several runs, each number is the mean with its 95 % interval.
 */
export function numbersTable(runs: readonly (readonly [string, readonly Numbers[]])[]): string {
  const known = measuredOf(runs.flatMap(([, own]) => own))
  const cell = (values: readonly number[]): string => {
    const areSame = values.every((value) => value === values[0])
    return areSame ? formatNumber(values[0]) : formatEstimate(estimate(values))
  }
  const lines = runs.map(([name, own]) => [
    name,
    ...known.map((number) => cell(own.flatMap((one) => one[number] ?? []))),
  ])
  const table = [['', ...known], ...lines]
  const turned = table[0]!.map((_, column) => table.map((line) => line[column]!))
  const [head = [], ...rows] = runs.length === 1 ? turned : table
  return textTable(head, rows)
}

const words = {
  better: 'better',
  worse: 'worse',
  noise: 'within the noise',
  unknown: '(no interval)',
}

/** The figures of all targets at one load, and their ratios. */
export function compareTable({ load, figures: values, ratios }: ComparedLoad): string {
  const names = Object.keys(values)
  const [baseline = '', ...others] = names
  const ratioText = (ratio: Ratio | undefined) =>
    ratio === undefined ? '–' : `${formatEstimate(ratio)} ${words[ratio.verdict]}`
  const rows = figures
    .filter(({ name }) => names.some((target) => values[target]?.[name] !== undefined))
    .map(({ name, unit }) => [
      `${name} ${unit}`,
      ...names.map((target) => formatEstimate(values[target]?.[name])),
      ...others.map((target) => ratioText(ratios[target]?.[name])),
    ])
  const head = ['', ...names, ...others.map((name) => `${name} / ${baseline}`)]
  return `${loadName(load)}, mean (95 % interval)\n${textTable(head, rows)}\n\n`
}

/** Characters of a line, at most, where a table has more than two columns. */
const widest = 120

/**
 * A table for the terminal; all columns but the first are aligned right. One that is too wide for a line
 * becomes several, below each other, each with the first column.
 */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const width = (column: number) =>
    [head, ...rows].reduce((most, row) => Math.max(most, (row[column] ?? '').length), 0) + 3
  const groups: number[][] = []
  let room = 0
  for (let column = 1; column < head.length; column++) {
    if (groups.length === 0 || room < width(column)) {
      groups.push([0])
      room = widest - 1 - width(0)
    }
    groups.at(-1)?.push(column)
    room -= width(column)
  }
  if (groups.length === 0) groups.push([0])
  const tables = groups.map((columns) => {
    const pick = (row: readonly string[]) => columns.map((at) => row[at] ?? '')
    return oneTable(pick(head), rows.map(pick))
  })
  return tables.join('\n')
}

function oneTable(head: string[], rows: string[][]): string {
  const table = new Table({
    head,
    colAligns: head.map((_, index) => (index === 0 ? 'left' : 'right')),
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
    style: { head: [], border: [] },
  })
  table.push(...rows)
  return table.toString()
}
