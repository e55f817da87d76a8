import { plot } from '../report/html/plot.js'
import type { StageResult } from './measure-stages.js'

/** Where the time of each stage goes. */
export function stagePlot(stages: readonly StageResult[]): Promise<string> {
  const values = stages.flatMap(({ stage, name, wallMs, decodeMs, sampleMs }) => [
    { stage: `${stage} ${name}`, part: 'native', ms: decodeMs },
    { stage: `${stage} ${name}`, part: 'sampling', ms: sampleMs },
    { stage: `${stage} ${name}`, part: 'the rest', ms: Math.max(0, wallMs - decodeMs - sampleMs) },
  ])
  return plot({
    data: { values },
    mark: { type: 'bar' },
    encoding: {
      y: { field: 'stage', type: 'nominal', sort: null, title: null, axis: { labelLimit: 400 } },
      x: { field: 'ms', type: 'quantitative', title: 'milliseconds' },
      color: { field: 'part', type: 'nominal', sort: null },
    },
  })
}
