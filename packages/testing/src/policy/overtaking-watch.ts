import assert from 'node:assert/strict'
import type { SchedulerEvent, SequenceView } from '@cllm/core'

interface Waiting {
  readonly turn: number
  /** Requests that waited when it came. */
  readonly ahead: number
  /** Tokens computed of later requests since. */
  overtaken: number
}

/** Counts how much of later requests is computed before a request gets its first slot. */
export class OvertakingWatch {
  readonly #turns = new Map<SequenceView, number>()
  readonly #waiting = new Map<SequenceView, Waiting>()

  /** @param bound - tokens, at most, by the number of requests that waited when one came */
  constructor(private readonly bound: (ahead: number) => number) {}

  /** Throws an `AssertionError` when a request is overtaken by more than the bound. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'step') {
      for (const part of event.parts) this.#count(part)
    } else if (event.type !== 'queued') {
      this.#waiting.delete(event.request)
    } else if (!this.#turns.has(event.request)) {
      const turn = this.#turns.size
      this.#turns.set(event.request, turn)
      this.#waiting.set(event.request, { turn, ahead: this.#waiting.size, overtaken: 0 })
    }
  }

  #count({ request, tokens }: { readonly request: SequenceView; readonly tokens: number }): void {
    const turn = this.#turns.get(request) ?? -1
    for (const [{ id }, one] of this.#waiting) {
      if (one.turn > turn) break
      one.overtaken += tokens
      const most = this.bound(one.ahead)
      // A message for each check that holds would take most of the time.
      if (one.overtaken <= most) continue
      assert.fail(
        `${one.overtaken} tokens of later requests were computed before "${id}", which had ${one.ahead} ahead: at most ${most}`,
      )
    }
  }
}
