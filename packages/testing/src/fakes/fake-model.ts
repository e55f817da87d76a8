import {
  type BatchItem,
  type OutputLogprobs,
  type SamplingParams,
  type ScoredTokens,
  type StepOutput,
  type TokenId,
  type Tokenizer,
  extendHash,
  hashTokens,
} from '@cllm/core'
import { saltOf } from './fake-adapters.js'
import { FakeSampler, sampleToken } from './fake-sampler.js'
import type { FakeSlot } from './fake-slot.js'
import {
  FakeTokenizer,
  completions,
  fakePieces,
  fakeTokenIds,
  firstByteToken,
  firstTailToken,
  firstWordToken,
} from './fake-tokenizer.js'
import type { FakeScript } from './fake-calls.js'

/** What a fake model is made of. */
interface FakeModelOptions {
  /** Models of other names say other things. */
  readonly id: string
  /** How likely a text ends with each token, 0 to 1. */
  readonly endProbability: number
  readonly script: FakeScript | undefined
}

/** The hash of all tokens and of the adapters that they are computed with; 0: none. */
const salted = (hash: number, salt: number): number => (salt === 0 ? hash : extendHash(hash, salt))

/**
 * The "language model" of {@link FakeBackend}: its logits are a hash of all tokens so far, so that any
 * token lost, doubled or mixed up on the way changes everything that follows.
 */
export class FakeModel {
  readonly tokenizer = new FakeTokenizer()
  /** The hash of no tokens. */
  readonly emptyHash: number

  constructor(private readonly options: FakeModelOptions) {
    this.emptyHash = hashTokens(0, [...new TextEncoder().encode(options.id)])
  }

  /**
   * The token that follows `content`.
   *
   * @param hash of the content, see {@link emptyHash} and `extendHash`
   */
  next(content: readonly TokenId[], hash: number, params: SamplingParams): TokenId {
    const scripted = this.options.script?.(content)
    if (scripted !== undefined) return scripted
    const logits = this.#logits(content.at(-1), hash)
    return sampleToken(logits, content, params, (id) => this.tokenizer.isEndOfGeneration(id))
  }

  /** How likely the drawn token and the likeliest ones are after `content`. */
  logprobs(
    content: readonly TokenId[],
    hash: number,
    token: TokenId,
    count: number,
  ): OutputLogprobs {
    const logits = this.#logits(content.at(-1), hash)
    const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0))
    const of = (id: TokenId) => ({ token: id, logprob: (logits[id] ?? NaN) - total })
    const likeliest = [...logits.keys()].sort((a, b) => (logits[b] ?? NaN) - (logits[a] ?? NaN))
    return { logprob: of(token).logprob, top: likeliest.slice(0, count).map(of) }
  }

  /** Puts an item's tokens into its slot and draws what is wanted, up to the first wrong draft. */
  compute(item: BatchItem, slot: FakeSlot): StepOutput[] {
    const { position, tokens, outputs, drafts = 0, discarded = 0, sampler } = item
    // its draws are the likeliest tokens
    const count = item.logprobs ?? item.drawLogprobs
    slot.append(tokens)
    slot.salt = saltOf(item.adapters)
    if (!(sampler instanceof FakeSampler)) return []
    const drawn: StepOutput[] = []
    for (const output of outputs) {
      const before = tokensBefore(slot.tokens, output + 1, discarded)
      const hash = slot.hashAt(output + 1)
      const token = this.next(before, salted(hash, slot.salt), sampler.params)
      sampler.history = extendHash(hash, token)
      const logprobs =
        count === undefined ? {} : { logprobs: this.logprobs(before, hash, token, count) }
      drawn.push({ position: output, token, ...logprobs })
      if (drafts > 0 && token !== tokens[output + 1 - position]) break
    }
    return drawn
  }

  /** How likely the scored tokens are in this slot. */
  score(slot: FakeSlot, scores: ScoredTokens | undefined): OutputLogprobs[] {
    const { position = 0, tokens = [], top = 0 } = scores ?? {}
    return tokens.map((token, index) => {
      const length = position + index + 1
      return this.logprobs(slot.tokens.slice(0, length), slot.hashAt(length), token, top)
    })
  }

  /** Up to `count` tokens that follow `content`, the end-of-generation token included. */
  continuation(
    content: readonly TokenId[],
    params: SamplingParams,
    count: number,
    salt = 0,
  ): TokenId[] {
    const tokens = [...content]
    let hash = hashTokens(this.emptyHash, tokens)
    while (tokens.length < content.length + count) {
      const token = this.next(tokens, salted(hash, salt), params)
      tokens.push(token)
      hash = extendHash(hash, token)
      if (!params.ignoreEos && this.tokenizer.isEndOfGeneration(token)) break
    }
    return tokens.slice(content.length)
  }

  /** Words are likely, single bytes hardly ever come, special tokens never do by themselves. */
  #logits(last: TokenId | undefined, hash: number): Float64Array {
    const logits = new Float64Array(fakePieces.length)
    for (let id = 0; id < logits.length; id++) {
      const isWord = id >= firstWordToken && id < firstTailToken
      const base = id < firstByteToken ? -40 : isWord ? 0 : -20
      logits[id] = base + (6 * extendHash(hash, id)) / 2 ** 32
    }
    const completion = last === undefined ? undefined : completions.get(last)
    if (completion !== undefined) logits[completion] = 30
    const end = extendHash(hash, fakePieces.length) / 2 ** 32 < this.options.endProbability
    if (end) logits[fakeTokenIds.endOfSequence] = 60
    return logits
  }
}

/** The first `length` tokens, behind what was discarded: draws count positions from the very first. */
function tokensBefore(
  tokens: readonly TokenId[],
  length: number,
  discarded: number,
): readonly TokenId[] {
  // a copy for each token would be slow
  if (discarded === 0 && length === tokens.length) return tokens
  return [...Array.from({ length: discarded }, () => 0), ...tokens.slice(0, length)]
}

/** A vector of length 1 derived from the hash of an input. */
export function fakeEmbedding(hash: number, size: number): number[] {
  const vector = Array.from({ length: size }, (_, at) => extendHash(hash, at) / 2 ** 31 - 1)
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}

/**
 * A script for {@link FakeBackend}: after one of these prompts comes its answer, then the end. What
 * follows other prompts is left to the fake model.
 *
 * @param answers by prompt, as `encode` takes it (special tokens in it are read as such)
 */
export function scriptAnswers(
  tokenizer: Tokenizer,
  answers: Readonly<Record<string, string>>,
): FakeScript {
  const scripts = Object.entries(answers).map(([prompt, answer]) => ({
    prompt: tokenizer.encode(prompt),
    answer: tokenizer.encode(answer, { addBos: false }),
  }))
  return (content) => {
    for (const { prompt, answer } of scripts) {
      const whole = [...prompt, ...answer, fakeTokenIds.endOfSequence]
      if (content.length < prompt.length || content.length >= whole.length) continue
      if (content.every((token, index) => token === whole[index])) return whole[content.length]
    }
    return undefined
  }
}
