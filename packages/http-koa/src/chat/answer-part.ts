/** A tool that the model wants to be called. */
export interface ToolCall {
  readonly name: string
  /** A JSON object as text. */
  readonly arguments: string
}

/** A piece of an answer. */
export type AnswerPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** A call; where its arguments still come they are empty here. */
  | { readonly type: 'call'; readonly call: ToolCall }
  /** More of the last call's arguments. */
  | { readonly type: 'arguments'; readonly text: string }

/** Takes an answer apart while it comes. */
export interface AnswerParser {
  /** What has become certain with a piece of text. */
  push(text: string): readonly AnswerPart[]
  /** What was held back until the end. */
  end(): readonly AnswerPart[]
}

/** How many of a text's last characters may begin one of these marks. */
export function possibleStart(text: string, marks: readonly string[]): number {
  let longest = 0
  for (const mark of marks) {
    for (let length = Math.min(mark.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(mark.slice(0, length))) longest = length
    }
  }
  return longest
}
