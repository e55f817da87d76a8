import { CllmError, type TokenId } from '@cllm/core'

/** The tokens of a sequence up to where it is drawn from. */
export class History {
  readonly #tokens: TokenId[]

  /** @param tokens - those that the sequence had when its sampler was made */
  constructor(tokens: readonly TokenId[]) {
    this.#tokens = tokens.slice()
  }

  /**
   * All tokens up to `position`. The list is the history's own and changes with the next call.
   * @param tokens - the tokens of the batch item, starting at position `start`
   * @throws CllmError `backend_failed` when tokens before `start` are not known
   */
  upTo(position: number, start: number, tokens: readonly TokenId[]): readonly TokenId[] {
    const known = this.#tokens
    if (start > known.length) {
      throw new CllmError(
        'backend_failed',
        `the sampler knows ${known.length} tokens of its sequence, and is used at ${start}`,
      )
    }
    known.length = start
    for (let index = 0; index <= position - start; index++) known.push(tokens[index] ?? 0)
    return known
  }
}
