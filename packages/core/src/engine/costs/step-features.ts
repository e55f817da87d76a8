/** Several tokens that a step computes for one sequence: a part of a prompt. */
export interface Chunk {
  readonly tokens: number
  /** Tokens in the slot before it. */
  readonly context: number
}

/** The work of a step, as far as it takes time. */
export interface StepWork {
  /** The tokens in the slot of each sequence that computes a single one. */
  readonly decoding: readonly number[]
  readonly chunks: readonly Chunk[]
  /** The last token and the drafts of each sequence that verifies some; default: none. */
  readonly verifying?: readonly Chunk[]
  /** Copies between slots since the step before; default 0. */
  readonly copies?: number
}

/** What a step computes for one sequence; with `drafts`, that many of its tokens are verified. */
export type WorkPart = Chunk & { readonly drafts?: number }

/**
 * The work of a step with these parts. A single token costs a decode, whether it is the next one or
 * the last of a prompt.
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
 * A pass of more tokens multiplies matrices by matrices, as for a prompt; one of fewer takes its tokens one
 * by one. llama.cpp changes from one to the other at 8 on CUDA and, for most types of weights, on CPUs.
 */
const mostOneByOne = 8

/** The factors of the coefficients of a `StepCostModel`, in their order. */
export function stepFeatures({
  decoding,
  chunks: prompts,
  verifying = [],
  copies = 0,
}: StepWork): number[] {
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
