import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineClient } from '@cllm/core'
import { StepHistory, type StepBucket } from './step-history.js'

/** Times between two looks: about a step of a small model with several sequences on a CPU. */
const everyMs = 50

/**
 * Records the composition of an engine's steps while an action runs, from the engine's counters;
 * the steps between two samples are merged.
 */
export async function watchSteps<T>(
  client: Pick<EngineClient, 'statistics'>,
  run: () => Promise<T>,
): Promise<{ readonly result: T; readonly steps: readonly StepBucket[] }> {
  const history = new StepHistory()
  const began = performance.now()
  let before = await client.statistics()
  const look = async (): Promise<void> => {
    const now = await client.statistics()
    const steps = now.steps - before.steps
    const of = (name: 'prefillTokens' | 'decodeTokens' | 'busyMs') => now[name] - before[name]
    const atMs = performance.now() - began
    if (steps > 0) {
      history.add({
        atMs,
        steps,
        prefillTokens: of('prefillTokens'),
        decodeTokens: of('decodeTokens'),
        busyMs: of('busyMs'),
      })
    }
    before = now
  }
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      await sleep(everyMs, undefined, { signal: over.signal }).catch(() => undefined)
      await look()
    }
  })()
  try {
    const result = await run()
    over.abort()
    await watching
    return { result, steps: history.list() }
  } finally {
    over.abort()
    await watching.catch(() => undefined)
  }
}
