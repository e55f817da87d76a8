/** A tool call of the model. */
export interface ToolCall {
  readonly name: string
  /** A JSON object as text. */
  readonly arguments: string
}

/** A piece of an answer. */
export type AnswerPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** A call; its arguments are empty here if they are still to be streamed. */
  | { readonly type: 'call'; readonly call: ToolCall }
  /** More of the last call's arguments. */
  | { readonly type: 'arguments'; readonly text: string }

/** Splits an answer into parts while it is generated. */
export interface AnswerParser {
  /** The parts that this piece of text completes. */
  push(text: string): readonly AnswerPart[]
  /** What was held back until the end. */
  end(): readonly AnswerPart[]
  /** Tokens up to the last of the reasoning, where each was pushed by itself. */
  readonly reasoningTokens: number
}

/** The number of trailing characters that may be the start of one of these marks. */
export function possibleStart(text: string, marks: readonly string[]): number {
  let longest = 0
  for (const mark of marks) {
    for (let length = Math.min(mark.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(mark.slice(0, length))) longest = length
    }
  }
  return longest
}
