import { Conversation } from './conversation.mjs'

/** A small request with a known answer, to check that a server works. */
export class Canary {
  static ask = {
    prompt: 'Once upon a time there was a',
    maxTokens: 8,
    tenant: '',
    temperature: 0,
    ignoreEos: true,
  }
  target
  #expected

  constructor(target) {
    this.target = target
  }

  /**
   * Sends the request until it is answered or the time is over. Returns undefined for a good
   * answer, otherwise the problem. All later answers must equal the first one.
   */
  async problem(withinMs) {
    const end = performance.now() + withinMs
    let problem = 'no time to send the request'
    for (let left = withinMs; left > 0; left = end - performance.now()) {
      const heard = await new Conversation(this.target, Canary.ask, left).done
      const isGood = heard.error === undefined && heard.ended && heard.text !== ''
      if (isGood && heard.text === (this.#expected ??= heard.text)) return undefined
      problem = isGood
        ? `a different answer: ${JSON.stringify(heard.text)}`
        : (heard.error ?? heard.broken ?? 'the stream broke off').slice(0, 120)
      // Retry while the server may be restarting, but not after a wrong answer.
      if (isGood) return problem
      await new Promise((resolve) => setTimeout(resolve, Math.min(100, left)))
    }
    return problem
  }
}
