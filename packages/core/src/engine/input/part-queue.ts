import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/clock.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import * as tokens from '../../tokens.js'
import { EngineObservers } from '../report/engine-observers.js'

interface LongText {
  readonly parts: Iterator<readonly TokenId[]>
  readonly tokens: TokenId[]
  readonly check: (tokens: readonly TokenId[]) => void
  readonly resolve: (tokens: TokenId[]) => void
  readonly reject: (error: unknown) => void
}

/**
 * Tokenizes long texts, one part in each turn of the event loop however many texts there are, so that
 * steps and messages go on in between. The texts come one after the other: the first is computed while
 * the next ones are tokenized.
 */
@injectable()
export class PartQueue {
  /** In the order in which they came. */
  readonly #texts = new Set<LongText>()

  constructor(
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(tokens.CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * Joins the parts.
   *
   * @param check - called in each turn, with the tokens so far; what it throws ends the work
   */
  async join(
    parts: Iterable<readonly TokenId[]>,
    check: (tokens: readonly TokenId[]) => void,
  ): Promise<TokenId[]> {
    return await new Promise((resolve, reject) => {
      this.#texts.add({ parts: parts[Symbol.iterator](), tokens: [], check, resolve, reject })
      if (this.#texts.size === 1) this.#turn()
    })
  }

  #turn(): void {
    for (const text of this.#texts) this.#attempt(text, () => text.check(text.tokens))
    for (const text of this.#texts) if (this.#takePart(text)) break
    // oxlint-disable-next-line no-restricted-globals -- yields to the event loop; no time is measured
    if (this.#texts.size > 0) setImmediate(() => this.#turn())
  }

  /** Whether a part was tokenized. A text without another one is done. */
  #takePart(text: LongText): boolean {
    let isPart = false
    this.#attempt(text, () => {
      const { done, value } = text.parts.next()
      if (done === true) {
        this.#texts.delete(text)
        text.resolve(text.tokens)
        return
      }
      isPart = true
      for (const token of value) text.tokens.push(token)
      this.observers.onTokenized(this.clock.now())
    })
    return isPart
  }

  #attempt(text: LongText, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#texts.delete(text)
      text.parts.return?.()
      text.reject(error)
    }
  }
}
