import type { ComparedLoad, Ratio } from '../compare/compare-runs.js'
import { figures } from './figures.js'
import { formatEstimate } from './format.js'
import { loadName } from './run-result.js'
import { textTable } from './text-table.js'

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
