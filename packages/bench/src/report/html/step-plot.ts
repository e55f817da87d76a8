import { plot } from './plot.js'
import type { StepBucket } from '../step-history.js'

/** Prompt and answer tokens per step over time. */
export function stepPlot(steps: readonly StepBucket[]): Promise<string> {
  const values = steps.flatMap(({ atMs, steps: count, prefillTokens, decodeTokens }) => [
    { seconds: atMs / 1000, kind: 'prefill', tokens: prefillTokens / count },
    { seconds: atMs / 1000, kind: 'decode', tokens: decodeTokens / count },
  ])
  return plot({
    data: { values },
    mark: { type: 'area', interpolate: 'step-after' },
    encoding: {
      x: { field: 'seconds', type: 'quantitative' },
      y: { field: 'tokens', type: 'quantitative', stack: 'zero', title: 'tokens per step' },
      color: { field: 'kind', type: 'nominal', sort: null },
    },
  })
}
