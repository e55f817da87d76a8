import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineClient } from '@cllm/core'

/** The steps of all machines within an interval of time. */
export interface StepBucket {
  /** Start of the interval, in milliseconds after the start of the run. */
  readonly atMs: number
  readonly steps: number
  readonly prefillTokens: number
  readonly decodeTokens: number
  readonly busyMs: number
}

/** A plot cannot show more intervals than this. */
const most = 512

type Bucket = { -readonly [Key in keyof StepBucket]: StepBucket[Key] }

const counts = ['steps', 'prefillTokens', 'decodeTokens', 'busyMs'] as const
const nothing = { steps: 0, prefillTokens: 0, decodeTokens: 0, busyMs: 0 }

/**
 * The composition of steps over time in bounded memory: intervals of equal length, which are merged
 * in pairs whenever there are too many.
 */
export class StepHistory {
  #buckets: Bucket[] = []
  #lengthMs = 10

  /** Adds one step or several. */
  add(part: StepBucket): void {
    while (part.atMs >= this.#lengthMs * most) this.#join()
    this.#put(part)
  }

  /** The intervals with steps in them, by time. */
  list(): StepBucket[] {
    return Object.values(this.#buckets)
  }

  #join(): void {
    this.#lengthMs *= 2
    const parts = this.list()
    this.#buckets = []
    for (const part of parts) this.#put(part)
  }

  #put(part: StepBucket): void {
    const index = Math.floor(part.atMs / this.#lengthMs)
    const bucket = (this.#buckets[index] ??= { atMs: index * this.#lengthMs, ...nothing })
    for (const name of counts) bucket[name] += part[name]
  }
}

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
  const over = new AbortController()
  const watch = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await sleep(everyMs, undefined, { signal: over.signal }).catch(() => undefined)
      const now = await client.statistics()
      const part = { atMs: performance.now() - began, ...nothing }
      for (const name of counts) part[name] = now[name] - before[name]
      if (part.steps > 0) history.add(part)
      before = now
    }
  }
  const [result] = await Promise.all([run().finally(() => over.abort()), watch()])
  return { result, steps: history.list() }
}
