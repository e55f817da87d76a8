import assert from 'node:assert/strict'
import {
  type Backend,
  type BatchItem,
  type OutputLogprobs,
  type Sampler,
  type SlotId,
  type StepOutput,
  type StepResult,
  type TokenId,
  defaultSampling,
  type SamplingParams,
} from '@cllm/core'
import { check, type TestContext } from '../test-context.js'

/** Always the likeliest token. */
export const greedy: SamplingParams = Object.freeze({ ...defaultSampling, temperature: 0, seed: 1 })

const story =
  'Once upon a time there was a little cat. The cat saw a big red house and an old tree. ' +
  'One day the cat ran to the sea, sat in the sun and told a story to a friend.'

/** What of a sequence is computed, and what is asked for with the draw. */
interface Advance {
  readonly from?: number
  readonly chunk?: number
  readonly more?: Pick<BatchItem, 'logprobs' | 'drawLogprobs' | 'adapters'>
}

/** Does with a backend what an engine does, one sequence at a time. */
export class BackendDriver {
  /** The start of a story: 24 tokens, or less where less fit into a quarter of a slot. */
  readonly prompt: readonly TokenId[]

  /** Resolves when the step that has just begun is interrupted; it is computed again. Default: none is. */
  interruptsWhen: (() => Promise<void>) | undefined

  /** @param exact - whether what would differ only by rounding is compared, too */
  constructor(
    private readonly t: TestContext,
    readonly backend: Backend,
    readonly exact: boolean,
  ) {
    const length = Math.min(24, Math.floor(backend.limits.contextSize / 4))
    this.prompt = backend.tokenizer.encode(story).slice(0, length)
  }

  /** Compares what rounding may change. */
  readonly same = (actual: unknown, expected: unknown, message?: string): void => {
    if (this.exact) assert.deepEqual(actual, expected, message)
  }

  /** A step of one item; what comes back is checked against what was asked for. */
  async step(items: readonly BatchItem[]): Promise<readonly (readonly StepOutput[])[]> {
    return (await this.#run(items)).outputs
  }

  /** Log probabilities of all tokens but the first, computed `chunk` at a time. */
  async score(slot: SlotId, tokens: readonly TokenId[], chunk: number): Promise<OutputLogprobs[]> {
    const scored: OutputLogprobs[] = []
    await this.#withSampler(greedy, tokens, async (sampler) => {
      for (let position = 0; position < tokens.length; position += chunk) {
        const part = tokens.slice(position, position + chunk)
        const next = tokens.slice(position + 1, position + chunk + 1)
        const scores = { position, tokens: next, top: 3 }
        const item = { slot, position, tokens: part, outputs: [], sampler }
        const { scores: found } = await this.#run([next.length > 0 ? { ...item, scores } : item])
        assert.equal(found?.[0]?.length ?? 0, next.length, 'there is one score per wanted token')
        scored.push(...(found?.[0] ?? []))
      }
    })
    return scored
  }

  async #run(items: readonly BatchItem[]): Promise<StepResult> {
    let result = await this.#attempt(items)
    if (result.isInterrupted === true) {
      assert.deepEqual(result.outputs, [], 'a step that was interrupted has no outputs')
      result = await this.backend.step(items)
    }
    assert(result.isInterrupted !== true, 'a step that nobody interrupts is not interrupted')
    for (const milliseconds of [result.decodeMs, result.sampleMs]) {
      assert(milliseconds >= 0, `a step's times are milliseconds, instead got ${milliseconds}`)
    }
    assert.equal(result.outputs.length, items.length, 'there is one list of outputs per item')
    for (const [index, item] of items.entries()) {
      const outputs = result.outputs[index] ?? []
      const positions = outputs.map(({ position }) => position)
      assert.deepEqual(positions, item.outputs, 'there is one output per wanted position')
      for (const { token } of outputs) assertInVocabulary(this.backend, token)
    }
    return result
  }

  async #attempt(items: readonly BatchItem[]): Promise<StepResult> {
    const step = this.backend.step(items)
    if (this.interruptsWhen === undefined) return await step
    // Also of a step that has ended already: that changes nothing.
    await this.interruptsWhen()
    this.backend.interrupt?.()
    return await step
  }

  /** Computes `tokens` from index `from` on, `chunk` at a time, and draws the next token. */
  async compute(
    slot: SlotId,
    tokens: readonly TokenId[],
    params: SamplingParams,
    part: Omit<Advance, 'more'> = {},
  ): Promise<TokenId> {
    return await this.#withSampler(params, tokens, async (sampler) => {
      const { token } = await this.advance(slot, tokens, sampler, part)
      return token
    })
  }

  /**
   * Computes `tokens` in slot 0, which is emptied before, and draws the next token with this sampler,
   * which is disposed of.
   *
   * @param more - what else is asked for with the draw
   */
  async drawWith(
    sampler: Sampler,
    tokens: readonly TokenId[],
    more: Advance['more'] = {},
  ): Promise<StepOutput> {
    this.backend.release(0)
    try {
      return await this.advance(0, tokens, sampler, { more })
    } finally {
      sampler.dispose()
    }
  }

  /** Draws `count` tokens after `tokens`, of which the first `from` are in the slot. */
  async generate(
    slot: SlotId,
    tokens: readonly TokenId[],
    params: SamplingParams,
    count: number,
    from = 0,
  ): Promise<TokenId[]> {
    const all = [...tokens]
    await this.#withSampler(params, tokens, async (sampler) => {
      for (let computed = from; all.length < tokens.length + count;) {
        const { token } = await this.advance(slot, all, sampler, { from: computed })
        computed = all.length
        all.push(token)
      }
    })
    return all.slice(tokens.length)
  }

  /** Several sequences side by side, each in the slot of its index; draws `count` tokens of each. */
  async generateTogether(
    prompts: readonly (readonly TokenId[])[],
    params: SamplingParams,
    count: number,
  ): Promise<TokenId[][]> {
    const sequences = prompts.map((prompt, slot) => ({
      slot,
      tokens: [...prompt],
      end: prompt.length + count,
      computed: 0,
      sampler: this.backend.createSampler(params, prompt),
    }))
    const share = Math.floor(this.backend.limits.batchSize / sequences.length)
    assert(share > 0, 'a batch has room for a token of each slot')
    while (sequences.some(({ tokens, end }) => tokens.length < end)) {
      const items = sequences.map((one) => itemOf(one, one.computed, share))
      const outputs = await this.step(items)
      for (const [index, sequence] of sequences.entries()) {
        sequence.computed += items[index]!.tokens.length
        for (const { token } of outputs[index]!) sequence.tokens.push(token)
      }
    }
    for (const { sampler } of sequences) sampler.dispose()
    return sequences.map(({ tokens, end }) => tokens.slice(end - count, end))
  }

  /** A check of the suite. */
  async check(name: string, body: () => void | Promise<void>): Promise<void> {
    await check(this.t, name, body)
  }

  /** The same, which finds all slots empty. */
  async checkEmpty(name: string, body: () => void | Promise<void>): Promise<void> {
    await this.check(name, async () => {
      this.releaseAll()
      await body()
    })
  }

  /** Empties all slots. */
  releaseAll(): void {
    for (let slot = 0; slot < this.backend.limits.slots; slot++) this.backend.release(slot)
  }

  /** Computes `tokens` from index `from` on, `chunk` at a time, and draws the next one. */
  async advance(
    slot: SlotId,
    tokens: readonly TokenId[],
    sampler: Sampler,
    { from = 0, chunk = Infinity, more = {} }: Advance = {},
  ): Promise<StepOutput> {
    const share = Math.min(chunk, this.backend.limits.batchSize)
    for (let position = from; ; position += share) {
      const item = itemOf({ slot, tokens, sampler }, position, share)
      const [drawn] = await this.step([{ ...item, ...more }])
      if (drawn?.[0] !== undefined) return drawn[0]
    }
  }

  async #withSampler<T>(
    params: SamplingParams,
    tokens: readonly TokenId[],
    work: (sampler: Sampler) => Promise<T>,
  ): Promise<T> {
    const sampler = this.backend.createSampler(params, tokens)
    try {
      return await work(sampler)
    } finally {
      sampler.dispose()
    }
  }
}

/** The next tokens of a sequence, at most `share`; with the last of them, the next one is drawn. */
function itemOf(
  { slot, tokens, sampler }: Required<Pick<BatchItem, 'slot' | 'tokens' | 'sampler'>>,
  position: number,
  share: number,
): BatchItem {
  const part = tokens.slice(position, position + share)
  const end = position + part.length
  const outputs = end === tokens.length ? [end - 1] : []
  return { slot, position, tokens: part, outputs, sampler }
}

/** Throws an `AssertionError` for what is not a token of the backend's model. */
function assertInVocabulary({ tokenizer }: Backend, token: TokenId): void {
  const isToken = Number.isInteger(token) && token >= 0 && token < tokenizer.vocabularySize
  assert(isToken, `token ${token} is outside the vocabulary of ${tokenizer.vocabularySize}`)
}
