import { type Sampler, type SamplingParams, type TokenId, hashTokens } from '@cllm/core'

/** The sampler of {@link FakeBackend}: remembers which tokens it knows, to be checked at each draw. */
export class FakeSampler implements Sampler {
  readonly params: SamplingParams
  /** The hash of the tokens that it was made with and has drawn since. */
  history: number
  disposed = false
  readonly #onDispose: (sampler: FakeSampler) => void

  constructor(
    params: SamplingParams,
    tokens: readonly TokenId[],
    emptyHash: number,
    onDispose: (sampler: FakeSampler) => void,
  ) {
    this.params = params
    this.history = hashTokens(emptyHash, tokens)
    this.#onDispose = onDispose
  }

  dispose(): void {
    this.#onDispose(this)
    this.disposed = true
  }
}
