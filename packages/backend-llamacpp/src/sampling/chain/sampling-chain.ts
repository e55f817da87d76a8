import { mixBits, type SamplingParams, type TokenId, type Tokenizer } from '@cllm/core'
import { Candidates } from './candidates/candidates.js'
import { PlainScan } from './scan/plain-scan.js'
import { SimdScan } from './scan/simd/simd-scan.js'
import type { VocabularyScan } from './scan/vocabulary-scan.js'
import {
  type ChainStep,
  DrawRandom,
  DynamicTemperatureDraw,
  type FinalDraw,
  GreedyDraw,
  type LogitChange,
  TemperatureDraw,
} from './steps/draws.js'
import { type BreakerVocabulary, Dry } from './steps/dry.js'
import { LogitBias, Penalties } from './steps/logit-changes.js'
import { Mirostat } from './steps/mirostat.js'
import { MinP, TopK, TopNSigma, TopP, Typical, Xtc } from './steps/truncation.js'
import type { Vocabulary } from '../../text/vocabulary.js'

/** llama.cpp draws a random seed when it is given this one. */
const randomSeed = 0xffffffff

/** The golden ratio in 32 bits: odd, so that a product with it is a bijection. */
const golden = 0x9e3779b9

/**
 * The seed of the draw after `position`: a hash of both, one-to-one in the position, so that two
 * positions of a request never share a seed. The mixer is MurmurHash3's (A. Appleby).
 */
export function seedAt(seed: number, position: number): number {
  const hash = mixBits((mixBits(seed) + Math.imul(position, golden)) | 0)
  return hash === randomSeed ? 0 : hash
}

/**
 * What a request adds to the logits of single tokens, with `ignoreEos` as a bias too.
 * @throws CllmError `invalid_token`
 */
export function biasesOf(params: SamplingParams, vocabulary: Vocabulary): Map<TokenId, number> {
  const biases = new Map<TokenId, number>()
  for (const [token, bias] of params.logitBias) {
    vocabulary.check(token)
    biases.set(token, (biases.get(token) ?? 0) + bias)
  }
  if (params.ignoreEos) {
    for (const token of vocabulary.endOfGeneration) biases.set(token, -Infinity)
  }
  return biases
}

/**
 * In vocabularies larger than this a request with `top_p` and without `top_k` draws from the
 * likeliest {@link nucleusCandidates}.
 */
export const largeVocabulary = 65_536

/**
 * How many tokens `top_p` looks at in a large vocabulary: sorting all of 151,936 takes up to
 * 7 ms a token, 8,192 take 0.8. The probability beyond them was 0.00002 with a well-trained model
 * and 0.01 with a 2-bit one (see docs/decisions/0005-nucleus-candidates.md).
 */
export const nucleusCandidates = 8192

/** The `top_k` of a request's draws; 0 for none. */
export function topKOf({ topK, topP }: SamplingParams, vocabularySize: number): number {
  if (topK > 0) return topK
  return topP < 1 && vocabularySize > largeVocabulary ? nucleusCandidates : 0
}

/** The vocabulary that a request's draws are from. */
export interface ChainVocabulary extends BreakerVocabulary {
  /** In a large one `top_p` alone looks at the likeliest tokens only. */
  readonly size: number
}

/** With a threshold above this XTC does nothing. */
const mostXtcThreshold = 0.5

/**
 * The steps of a request's draws, in llama-server's order: penalties, DRY, top-nσ, top-k, typical,
 * top-p, min-p, XTC, temperature.
 */
export class SamplingChain {
  readonly #changes: readonly LogitChange[]
  readonly #steps: readonly ChainStep[]
  readonly #draw: FinalDraw

  constructor(params: SamplingParams, vocabulary: ChainVocabulary) {
    const temperature = Math.fround(params.temperature)
    this.#changes = [...changesOf(params, vocabulary)]
    this.#steps = [...stepsOf({ ...params, temperature }, vocabulary.size)]
    this.#draw = drawOf(params, temperature)
  }

  /** Whether a step needs to know the tokens before the one that is drawn. */
  get needsHistory(): boolean {
    return this.#changes.length > 0
  }

  /** Changes the logits of single tokens. */
  change(logits: Float32Array, history: readonly TokenId[]): void {
    for (const change of this.#changes) change.apply(logits, history)
  }

  /** The temperature at which the candidates that {@link pick} left were drawn from; 0: no draw. */
  get temperature(): number {
    return this.#draw.temperature
  }

  /** Draws one of the candidates. */
  pick(candidates: Candidates, random: DrawRandom): TokenId {
    for (const step of this.#steps) step.apply(candidates, random)
    return this.#draw.pick(candidates, random)
  }
}

function* changesOf(params: SamplingParams, vocabulary: BreakerVocabulary): Iterable<LogitChange> {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, penaltyLastN } = params
  const hasPenalties = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0
  if (hasPenalties && penaltyLastN !== 0) yield new Penalties(params)
  const { dryMultiplier, dryPenaltyLastN } = params
  if (dryMultiplier > 0 && dryPenaltyLastN > 0) yield new Dry(params, vocabulary)
}

function* stepsOf(params: SamplingParams, vocabularySize: number): Iterable<ChainStep> {
  const { topP, minP, typicalP, minKeep, topNSigma, temperature, mirostat, mirostatTau } = params
  const { xtcProbability, xtcThreshold, dynamicTemperatureRange } = params
  const hasXtc = xtcProbability > 0 && xtcThreshold <= mostXtcThreshold
  // the other steps never leave out the likeliest token
  if (temperature === 0 && (mirostat === 2 || (typicalP === 1 && !hasXtc))) return
  if (mirostat === 2) {
    yield new Mirostat(mirostatTau, temperature)
    return
  }
  const topK = topKOf(params, vocabularySize)
  if (topNSigma > 0) yield new TopNSigma(topNSigma)
  if (topK > 0) yield new TopK(topK)
  if (typicalP < 1) yield new Typical(typicalP, minKeep)
  if (topP < 1) yield new TopP(topP, minKeep)
  if (minP > 0) yield new MinP(minP, minKeep)
  const drawn = temperature + dynamicTemperatureRange
  if (hasXtc) yield new Xtc(xtcProbability, xtcThreshold, drawn, minKeep)
}

function drawOf(params: SamplingParams, temperature: number): FinalDraw {
  if (temperature === 0) return new GreedyDraw()
  const isFixed = params.dynamicTemperatureRange === 0 || params.mirostat === 2
  return isFixed ? new TemperatureDraw(temperature) : new DynamicTemperatureDraw(params)
}

/** What a sequence's draws depend on beside the logits and the position, where nothing else counts. */
export interface PlainDrawSettings {
  readonly params: SamplingParams
  /** What is added to the logits of single tokens. */
  readonly biases?: { readonly tokens: Uint32Array; readonly values: Float32Array }
}

/** What draws work on. */
export interface DrawWorkspace extends ChainVocabulary {
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random: DrawRandom
}

/**
 * Draws as {@link ChainSampler} does where neither earlier tokens nor a grammar nor processors count: such a
 * draw can be made in any thread.
 */
export class PlainDraw {
  readonly #workspace: DrawWorkspace
  readonly #chain: SamplingChain
  readonly #seed: number
  readonly #bias: LogitBias | undefined

  constructor(workspace: DrawWorkspace, { params, biases }: PlainDrawSettings) {
    this.#workspace = workspace
    this.#chain = new SamplingChain(params, workspace)
    this.#seed = params.seed
    this.#bias = biases && new LogitBias(biases.tokens, biases.values)
  }

  /** The token after `position`; undefined when none can be drawn. */
  draw(logits: Float32Array, position: number): TokenId | undefined {
    const { scan, candidates, random } = this.#workspace
    random.seed(seedAt(this.#seed, position))
    scan.load(logits)
    this.#bias?.apply(scan.logits)
    return candidates.begin() ? this.#chain.pick(candidates, random) : undefined
  }
}

/**
 * What the draws of a model work on, one after the other: about 30 bytes for each entry of the
 * vocabulary, shared by all of its samplers.
 */
export class SamplerWorkspace implements DrawWorkspace {
  readonly vocabulary: Vocabulary
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random = new DrawRandom()
  readonly #tokenizer: Pick<Tokenizer, 'encode'>
  #ids: Int32Array | undefined

  /** @param options - `simd` false does without SIMD instructions; default: as the machine can */
  constructor(
    vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
    { simd }: { readonly simd?: boolean } = {},
  ) {
    this.vocabulary = vocabulary
    this.#tokenizer = tokenizer
    this.scan = scanFor(vocabulary.size, simd)
    this.candidates = new Candidates(this.scan)
  }

  /** The ids of the whole vocabulary. */
  get ids(): Int32Array {
    return (this.#ids ??= Int32Array.from({ length: this.size }, (_, id) => id))
  }

  get size(): number {
    return this.vocabulary.size
  }

  bytes(token: TokenId): Uint8Array {
    return this.vocabulary.bytes(token)
  }

  encode(text: string): readonly TokenId[] {
    return this.#tokenizer.encode(text, { addBos: false, special: false })
  }
}

/** A scan for a vocabulary of this size, with SIMD instructions where the machine has them. */
export function scanFor(size: number, simd = SimdScan.isSupported()): VocabularyScan {
  return simd ? new SimdScan(size) : new PlainScan(size)
}
