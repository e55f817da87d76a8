import type { StepBucket } from './step-history.js'

/** The composition of steps as a counter of the Trace Event Format. */
export function stepTrace(name: string, pid: number, steps: readonly StepBucket[]): unknown[] {
  return [
    { name: 'process_name', ph: 'M', pid, tid: 0, args: { name: `${name}: steps` } },
    ...steps.map(({ atMs, steps: count, prefillTokens, decodeTokens }) => ({
      name: 'tokens per step',
      ph: 'C',
      pid,
      ts: atMs * 1000,
      args: { prefill: prefillTokens / count, decode: decodeTokens / count },
    })),
  ]
}
