import type { SequenceView, WaitingView } from '@cllm/core'

/** How many waiting requests are looked up for one ranking, beside those never seen. */
const lookUps = 128

/**
 * How much of each waiting request is still to be computed. What a slot holds changes, and looking it
 * up costs something, so of more than 128 requests only as many are looked up again each time, in
 * turn.
 */
export class UncachedWork {
  readonly #known = new WeakMap<SequenceView, number>()
  #rankings = 0

  /** Each waiting request with the tokens that it still needs, in their order. */
  estimates(waiting: WaitingView): (readonly [SequenceView, number])[] {
    const parts = Math.ceil(waiting.size / lookUps)
    const part = this.#rankings++ % Math.max(1, parts)
    const estimates: (readonly [SequenceView, number])[] = []
    for (const request of waiting) {
      const isDue = estimates.length % parts === part
      const known = isDue ? undefined : this.#known.get(request)
      const tokens = known ?? request.remainingTokens
      if (known === undefined) this.#known.set(request, tokens)
      estimates.push([request, tokens])
    }
    return estimates
  }
}
