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

/** A part with more detail: also where a call ends, with its raw text, and dropped text. */
export type ReadPart =
  | AnswerPart
  | { readonly type: 'dropped'; readonly text: string }
  | { readonly type: 'call-end'; readonly raw: string; readonly isWhole: boolean }

/** Splits an answer into parts while it is being generated. */
export interface AnswerParser {
  /** Adds a piece of text; returns the parts that are certain now. */
  push(text: string): readonly AnswerPart[]
  /** Ends the answer; returns the parts that were held back. */
  end(): readonly AnswerPart[]
  /** The number of reasoning tokens, if each token was pushed separately. */
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

/** Reasoning that arrives in pieces, without the white space around it. */
export class Thoughts {
  #hasBegun = false
  /** White space that belongs to the reasoning if more follows. */
  #blank = ''

  /**
   * Adds text; returns what is certainly reasoning.
   *
   * @param isEnd - whether this reasoning ends here; later text is another reasoning
   */
  push(text: string, isEnd: boolean): readonly ReadPart[] {
    const shown = this.#blank + text
    const solid = shown.trimEnd()
    const start = this.#hasBegun ? 0 : solid.length - solid.trimStart().length
    const blank = shown.slice(solid.length)
    const parts: ReadPart[] = []
    if (start > 0) parts.push({ type: 'dropped', text: solid.slice(0, start) })
    if (solid !== '') parts.push({ type: 'reasoning', text: solid.slice(start) })
    if (isEnd && blank !== '') parts.push({ type: 'dropped', text: blank })
    this.#blank = isEnd ? '' : blank
    this.#hasBegun = !isEnd && (this.#hasBegun || solid !== '')
    return parts
  }
}
