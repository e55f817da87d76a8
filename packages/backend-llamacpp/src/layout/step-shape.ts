/** What a step computes, as far as its cost depends on how llama.cpp lays out the KV cells. */
export interface StepShape {
  /** Sequences that compute a token each; 0 where it computes prompts alone. */
  readonly sequences: number
  /** Tokens that each of them holds. */
  readonly context: number
  /** Tokens of prompts; 0: none. */
  readonly chunk: number
}

/** Below this many tokens, attention costs next to nothing. */
const leastContext = 64

/** The shape that stands for all like this one: each number is the power of two that is next to it. */
export function roundShape({ sequences, context, chunk }: StepShape): StepShape {
  return {
    sequences: powerOfTwo(sequences),
    context: Math.max(leastContext, powerOfTwo(context)),
    chunk: powerOfTwo(chunk),
  }
}

/** A text by which equal shapes are found. */
export function shapeKey({ sequences, context, chunk }: StepShape): string {
  return `${sequences} × ${context} + ${chunk}`
}

function powerOfTwo(count: number): number {
  return count < 1 ? 0 : 2 ** Math.round(Math.log2(count))
}
