import type { OutputLogprobs, TokenId, Tokenizer, TokenLogprob } from '@cllm/core'
import { Candidates } from './candidates/candidates.js'
import { VocabularyScan } from './scan/vocabulary-scan.js'
import { DrawRandom } from './steps/draws.js'
import type { BreakerVocabulary } from './steps/logit-changes.js'
import type { LogitsContext } from '../../native/native-context.js'
import type { Vocabulary } from '../../text/vocabulary.js'

/** Tokens whose logit is this far below the largest are left out of the sum, whose logarithm they hardly change. */
const negligible = 26

/** The lowest log probability that counts: llama.cpp's single precision has no lower one. */
const least = -87

/**
 * The memory in which a model's draws are made, one after the other: about 30 bytes for each entry of the vocabulary,
 * shared by all samplers.
 */
export class SamplerWorkspace {
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random = new DrawRandom()
  readonly breakers: BreakerVocabulary

  /** @param context - the context whose logits are drawn from */
  constructor(
    readonly context: Pick<LogitsContext, 'logits' | 'logitsAddress'>,
    readonly vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
  ) {
    this.scan = new VocabularyScan(vocabulary.size)
    this.candidates = new Candidates(this.scan)
    this.breakers = {
      // the placeholder ids of images are outside the vocabulary
      bytes: (token) => (token < vocabulary.size ? vocabulary.bytes(token) : new Uint8Array(0)),
      encode: (text) => tokenizer.encode(text, { addBos: false, special: false }),
    }
  }

  /**
   * The log probabilities of tokens in the model's own distribution.
   * @param logits - the model's unchanged logits
   * @param token - the drawn token
   * @param count - the number of the likeliest tokens to list, too
   */
  rawLogprobs(logits: Float32Array, token: TokenId, count: number): OutputLogprobs {
    const { scan, candidates } = this
    scan.logits.set(logits)
    candidates.begin()
    const { largest } = candidates
    const logOfAll = largest + Math.log(scan.weigh(largest - negligible, 1, largest))
    const logprobOf = (logit: number): number => Math.min(0, logit - logOfAll)
    return { logprob: logprobOf(logits[token]!), top: this.#top(count, logprobOf) }
  }

  /**
   * The log probabilities of tokens in the last draw: after all of its steps, at its temperature. Changes the
   * candidates.
   * @param temperature - the draw's temperature
   * @param token - the drawn token
   * @param count - the number of the likeliest tokens to list, too
   */
  drawnLogprobs(temperature: number, token: TokenId, count: number): OutputLogprobs {
    const { scan, candidates } = this
    const { largest } = candidates
    const shift = Math.fround(largest / temperature)
    // the likeliest token was certain
    if (!Number.isFinite(shift)) return { logprob: 0, top: [{ token, logprob: 0 }].slice(0, count) }
    const own = scan.logits[token]!
    const total = candidates.isWhole
      ? scan.weigh(largest + least * temperature, temperature, shift)
      : scan.weighListed(candidates.size, temperature, shift)
    const logprobOf = (logit: number): number =>
      Math.min(0, (logit - largest) / temperature - Math.log(total))
    const top = this.#top(count, logprobOf).filter(({ logprob }) => logprob > least)
    return { logprob: Math.max(least, logprobOf(own)), top }
  }

  /** The likeliest tokens. */
  #top(count: number, logprobOf: (logit: number) => number): TokenLogprob[] {
    if (count === 0) return []
    const { candidates } = this
    candidates.keepTop(count)
    const top: TokenLogprob[] = []
    for (let index = 0; index < candidates.size; index++) {
      top.push({ token: candidates.ids[index]!, logprob: logprobOf(candidates.logits[index]!) })
    }
    return top
  }
}
