import type { Learner } from '../../contracts/services.js'
import { LinearFit, type LinearFitOptions } from './linear-fit.js'

/** The coefficients of a small model on two CPU cores, in the order of `stepFeatures`. The first steps scale them. */
const prior = [15, 8, 0.005, 20, 2, 3, 0.002, 40, 2]
/** The indexes of a prompt token's and of a copy's cost. */
const [tokenAt, copyAt] = [5, 7]
const kinds = [...Array<string>(3).fill('decode'), ...Array<string>(6).fill('prefill')]

/**
 * The number of observed copies before their cost is saved for later processes. With fewer, a single copy that was slowed
 * down by other processes would make copies seem too expensive for a long time.
 */
const copiesToKeep = 3

/** Options of {@link StepCostModel}; default: a memory of 0.9, and an outlier of 2. */
export type StepCostOptions = Partial<Pick<LinearFitOptions, 'memory' | 'outlier'>>

/**
 * Learns the cost of steps, in milliseconds, from the steps that ran:
 *
 *     decode  = base + each · sequences + read · context
 *     prefill = base + again · (lengths − 1) + each · tokens + read · Σ tokens · context
 *     copies  = copy · copies before the step
 *     outputs = output · tokens verified like prompts
 *
 * A step costs the sum.
 *
 * Verified tokens: up to eight count as one token of a sequence each, and each verifying sequence as one more pass
 * (`base`), since it usually needs one: on CPUs five tokens of one sequence take about as long as one token of each of
 * five sequences. More than eight count as prompt chunks with an output at each token: seventeen tokens of one sequence
 * may take a third of the time of seventeen sequences.
 *
 * `lengths` is the number of different chunk lengths: llama.cpp, with a KV cache for each sequence, makes passes over the
 * weights that take equally many tokens of each sequence, so that chunks of different lengths need further passes.
 *
 * A copy moves a whole slot, so its cost depends on the size of the slot and not on the prefix. Where the backend defers
 * it to the next step, as llama.cpp does, it lengthens that step.
 *
 * The prior is a small model on two CPU cores. The first decode and the first prompt chunk each set a scale of their own,
 * as a machine may be fast at one and slow at the other; a copy is scaled with the prompt tokens that it saves. Estimates
 * are a pure function of the observed steps, so a scheduling policy can own an instance.
 */
export class StepCostModel implements Learner {
  /** The learned coefficients. */
  readonly fit: LinearFit
  #copies = 0
  #recalledCopyMs: number | undefined

  constructor({ memory = 0.9, outlier = 2 }: StepCostOptions = {}) {
    this.fit = new LinearFit({ prior, memory, outlier, kinds })
  }

  /** Milliseconds of a step with this work; 0 for none. */
  predict(work: StepWork): number {
    return this.fit.predict(stepFeatures(work))
  }

  /**
   * Milliseconds of decoding one token for each sequence, given the tokens in its slot, and of verifying drafts beside
   * them; 0 for none.
   */
  decodeMs(contexts: readonly number[], verifying: readonly Chunk[] = []): number {
    return this.fit.predict(stepFeatures({ decoding: contexts, verifying, chunks: [] }))
  }

  /** Milliseconds of a step's prompt chunks; 0 for none. */
  prefillMs(chunks: readonly Chunk[]): number {
    return this.fit.predict(stepFeatures({ decoding: [], chunks }))
  }

  /** Milliseconds that prompt tokens behind `context` other tokens add to a step that has prompt chunks anyway. */
  tokensMs(tokens: number, context = 0): number {
    const [, , , , , each = 0, read = 0] = this.fit.coefficients
    return tokens * (each + read * (context + tokens / 2))
  }

  /** How many tokens behind `context` tokens take `ms`, not rounded; 0 where `ms` is too short for any. */
  prefillTokens(ms: number, context: number): number {
    const [, , , base = 0, , each = 0, read = 0] = this.fit.coefficients
    const spare = ms - base
    if (spare <= 0) return 0
    // Solves read/2 · tokens² + linear · tokens = spare, in the form that bears read = 0.
    const linear = each + read * context
    return (2 * spare) / (linear + Math.sqrt(linear ** 2 + 2 * read * spare))
  }

  /** Milliseconds that copying a slot adds. */
  get copyMs(): number {
    return this.fit.coefficients[copyAt] ?? 0
  }

  /** Its coefficients. That of copies is the recalled one, or in proportion to tokens, until enough were seen. */
  learned(): readonly number[] | undefined {
    const learned = this.fit.learned()
    if (this.#copies >= copiesToKeep) return learned
    return learned?.with(
      copyAt,
      this.#recalledCopyMs ?? (learned[tokenAt]! * prior[copyAt]!) / prior[tokenAt]!,
    )
  }

  /** @throws where they are none */
  recall(learned: unknown): void {
    this.fit.recall(learned)
    if (learned !== undefined) this.#recalledCopyMs = this.copyMs
  }

  /** Learns from a step with this work. A duration that is not finite and above 0 is ignored. */
  onWork(work: StepWork, durationMs: number): void {
    this.#copies += work.copies ?? 0
    this.fit.observe(stepFeatures(work), durationMs)
  }
}

/** Several tokens that a step computes for one sequence: a chunk of its prompt. */
export interface Chunk {
  readonly tokens: number
  /** Tokens in the slot before it. */
  readonly context: number
}

/** The work of a step, as far as it costs time. */
export interface StepWork {
  /** The tokens in the slot of each sequence that computes a single one. */
  readonly decoding: readonly number[]
  readonly chunks: readonly Chunk[]
  /** For each sequence that verifies drafts: its last token and the drafts; default: none. */
  readonly verifying?: readonly Chunk[]
  /** Copies between slots since the previous step; default 0. */
  readonly copies?: number
}

/** The tokens that a step computes for one sequence, of which the last `drafts` are verified. */
export type WorkPart = Chunk & { readonly drafts?: number }

/**
 * The work of a step with these parts. A single token costs a decode, even if it is the last one of a prompt.
 */
export function workOf(parts: readonly WorkPart[], copies = 0): StepWork {
  const decoding: number[] = []
  const chunks: Chunk[] = []
  const verifying: Chunk[] = []
  for (const part of parts) {
    if (part.tokens === 1) decoding.push(part.context)
    else if ((part.drafts ?? 0) > 0) verifying.push(part)
    else chunks.push(part)
  }
  return { decoding, chunks, verifying, copies }
}

/**
 * A pass of more tokens multiplies matrices by matrices, as for a prompt; a shorter one takes its tokens one by one.
 * llama.cpp switches at 8 tokens on CUDA and, for most types of weights, on CPUs.
 */
const mostOneByOne = 8

/** The factors of the coefficients of a `StepCostModel`, in their order. */
export function stepFeatures(work: StepWork): number[] {
  const { decoding, chunks: prompts, verifying = [], copies = 0 } = work
  let reads = 0
  for (const context of decoding) reads += context
  let drafted = 0
  for (const { tokens } of verifying) drafted += tokens
  const isLong = drafted > mostOneByOne
  if (!isLong) for (const { tokens, context } of verifying) reads += tokens * context
  const chunks = isLong ? [...prompts, ...verifying] : prompts
  const [few, many] = isLong ? [0, verifying.length] : [verifying.length, 0]
  let tokens = 0
  let pairs = 0
  for (const chunk of chunks) {
    tokens += chunk.tokens
    pairs += chunk.tokens * (chunk.context + chunk.tokens / 2)
  }
  const lengths =
    prompts.length < 2 ? prompts.length : new Set(prompts.map((chunk) => chunk.tokens)).size
  return [
    Number(decoding.length > 0) + few,
    decoding.length + (isLong ? 0 : drafted),
    reads,
    Number(prompts.length > 0) + many,
    Math.max(0, lengths - 1),
    tokens,
    pairs,
    copies,
    isLong ? drafted : 0,
  ]
}
