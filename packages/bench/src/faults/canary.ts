import type { Ask } from '../apis/api.js'
import type { Target } from '../load/target.js'
import { Conversation } from './conversation.js'

/** A small request whose answer is known, to see whether a server is well. */
export class Canary {
  static readonly ask: Ask = {
    prompt: 'Once upon a time there was a',
    maxTokens: 8,
    tenant: '',
    temperature: 0,
    ignoreEos: true,
  }
  #expected: string | undefined

  constructor(private readonly target: Target) {}

  /**
   * Asks until it is answered or the time is over; undefined for a good answer, otherwise what is
   * wrong. The first answer is what all later ones must be.
   */
  async problem(withinMs: number): Promise<string | undefined> {
    const end = performance.now() + withinMs
    let problem = 'no time to ask'
    for (let left = withinMs; left > 0; left = end - performance.now()) {
      const heard = await new Conversation(this.target, Canary.ask, left).done
      const isGood = heard.error === undefined && heard.ended && heard.text !== ''
      if (isGood && heard.text === (this.#expected ??= heard.text)) return undefined
      problem = isGood
        ? `another answer: ${JSON.stringify(heard.text)}`
        : (heard.error ?? heard.broken ?? 'the stream broke off').slice(0, 120)
      // A server that comes back is asked again, one that answers wrongly is not.
      if (isGood) return problem
      await new Promise((resolve) => setTimeout(resolve, Math.min(100, left)))
    }
    return problem
  }
}
