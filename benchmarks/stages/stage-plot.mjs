import { rowChart } from '../../packages/bench/dist/report/chart/row-chart.js'

/** Where the time of each stage goes, as a figure of HTML. */
export function stagePlot(stages) {
  const rows = stages.map(({ stage, name, wallMs, decodeMs, sampleMs }) => {
    const sampled = decodeMs + sampleMs
    const pieces = [
      { from: 0, to: decodeMs, kind: 0 },
      { from: decodeMs, to: sampled, kind: 1 },
      { from: sampled, to: Math.max(sampled, wallMs), kind: 2 },
    ]
    return { name: `${stage} ${name}`, pieces }
  })
  const kinds = ['native', 'sampling', 'the rest']
  const caption = 'Where the time goes'
  return rowChart(
    { caption, x: { title: 'milliseconds' }, kinds, rowHeight: 26, isWide: true },
    rows,
  )
}
