/** In a mark: any short text, such as the id of a call. */
export const anyText = '\u0001'
/** In a mark: the name of a tool. */
export const toolName = '\u0002'
/** In a mark: the name of an argument. */
export const argumentName = '\u0003'

/** The call is a JSON object that holds its name and its arguments. */
export interface CallObject {
  readonly kind: 'object'
  readonly nameKey: string
  readonly argumentsKey: string
  /** Whether the template puts even one call into a list. */
  readonly isList?: boolean
}

/** The keys that most models use. */
export const callObject: CallObject = {
  kind: 'object',
  nameKey: 'name',
  argumentsKey: 'arguments',
}

/** How the arguments of a call are written. */
export type ArgumentsFormat =
  | CallObject
  /** The call is a JSON object whose only key is the name: `{"add": {"a": 1}}`. */
  | { readonly kind: 'keyed' }
  /** A JSON object behind the name. */
  | { readonly kind: 'json' }
  /** Arguments that follow each other, each between marks. */
  | { readonly kind: 'tagged'; readonly marks: ArgumentMarks }
  /** A dictionary without JSON's quotes, or Python's keyword arguments. */
  | { readonly kind: 'literal'; readonly ends: '}' | ')'; readonly quote?: string }

/** The marks around the arguments of a call. */
export interface ArgumentMarks {
  /** Before the name of an argument. */
  readonly open: string
  /** Between the name and the value; may hold one `anyText` that tells the type. */
  readonly value: string
  /** The value of that `anyText` for texts. */
  readonly textType?: string
  /** Behind the value; may hold `argumentName`. */
  readonly close: string
  /** White space that the template puts around a value. */
  readonly before: string
  readonly after: string
}

/** A format of tool calls. */
export interface CallFormat {
  /** White space that the template puts between a text and a call, which is not part of the text. Default: none. */
  readonly gap?: string
  /** An optional mark before the first call; may be empty. */
  readonly section: string
  /** The mark from there to the arguments, with `toolName` if the name is not within them; may be empty. */
  readonly head: string
  readonly arguments: ArgumentsFormat
  /** Optional marks behind a call or between two calls. */
  readonly closings: readonly string[]
  /** Whether calls are only possible at the beginning of an answer or behind another call. */
  readonly startsOnly?: boolean
}

/** The marks around reasoning. */
export interface ThinkingFormat {
  readonly open: string
  readonly close: string
}

/** The format of a model's answers, as learned from its chat template. */
export interface ChatFormat {
  /** Whether the template renders tools and calls; otherwise the prompt has to explain how to call. */
  readonly showsTools: boolean
  /** The template's own format of calls, if it renders calls. */
  readonly own?: CallFormat | undefined
  /** All recognised formats of calls, the template's own first. */
  readonly calls: readonly CallFormat[]
  readonly thinking?: ThinkingFormat | undefined
  /** Optional marks before and behind the answer's text, which are not part of it. */
  readonly frame: { readonly open: string; readonly closings: readonly string[] }
  /** Whether the template wants ids of nine letters and digits. */
  readonly shortIds: boolean
}

/** A tool as chat templates know it. */
export interface ToolDefinition {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description?: string | undefined
    readonly parameters?: Readonly<Record<string, unknown>> | undefined
  }
}

/** A tool of a client, whose description and parameters may be left out. */
export const toTool = (tool: {
  readonly name: string
  readonly description?: string | null | undefined
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined
}): ToolDefinition => ({
  type: 'function',
  function: {
    name: tool.name,
    ...(typeof tool.description === 'string' ? { description: tool.description } : {}),
    ...(tool.parameters ? { parameters: tool.parameters } : {}),
  },
})

/** All marks that a model may write around text, reasoning and calls; undefined if there are none. */
export function marksOf({
  calls,
  thinking,
  frame,
}: Pick<ChatFormat, 'calls' | 'thinking' | 'frame'>): readonly string[] | undefined {
  const marks = [
    ...calls.flatMap(({ section, head, closings, arguments: written }) => [
      section,
      head,
      ...closings,
      ...(written.kind === 'tagged'
        ? [written.marks.open, written.marks.value, written.marks.close]
        : []),
      ...(written.kind === 'literal' && written.quote !== undefined ? [written.quote] : []),
    ]),
    thinking?.open ?? '',
    thinking?.close ?? '',
    frame.open,
    ...frame.closings,
  ].filter((mark) => /\S/.test(mark))
  return marks.length === 0 ? undefined : [...new Set(marks)]
}

/**
 * Splits a rendered text into pieces that must not be cut: tags (`<tool_call>`, `[TOOL_CALLS]`), code fences, white space,
 * words, and single characters.
 */
const segment =
  /<\|(?:open|close)\|>[^<>|]*<\|sep\|>|<[^<>\s][^<>\n]{0,80}>|\[\/?[A-Z][A-Z_ ]*\]|`{3}\w*|\s+|[\p{L}\p{N}_]+|[^]/gu
const tag =
  /^(?:<[^<>\s][^<>\n]{0,80}>|\[\/?[A-Z][A-Z_ ]*\]|`{3}\w*|<\|(?:open|close)\|>[^<>|]*<\|sep\|>)$/

/** The pieces of a text. */
export const segmentsOf = (text: string): readonly string[] => text.match(segment) ?? []

/** Whether a piece is a tag or a fence. */
export const isTag = (piece: string): boolean => tag.test(piece)

/** Whether a text contains a tag or a fence. */
export const hasTag = (text: string): boolean => segmentsOf(text).some(isTag)

/** A text as part of a regular expression. */
export const escaped = (text: string): string =>
  text.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)

/** The common beginning of two lists. */
export function sharedStart(left: readonly string[], right: readonly string[]): readonly string[] {
  const end = left.findIndex((piece, index) => piece !== right[index])
  return end < 0 ? left : left.slice(0, end)
}

/** The common end of two lists. */
export const sharedEnd = (left: readonly string[], right: readonly string[]): readonly string[] =>
  sharedStart(left.toReversed(), right.toReversed()).toReversed()

/** The common beginning of two texts, in whole pieces. */
export const commonStart = (one: string, other: string): string =>
  sharedStart(segmentsOf(one), segmentsOf(other)).join('')

/** The common end of two texts, in whole pieces. */
export const commonEnd = (one: string, other: string): string =>
  sharedEnd(segmentsOf(one), segmentsOf(other)).join('')

/** The text without this beginning; the whole text if it begins differently. */
export const withoutStart = (text: string, start: string): string =>
  text.startsWith(start) ? text.slice(start.length) : text

/** The text without this ending; the whole text if it ends differently. */
export const withoutEnd = (text: string, end: string): string =>
  end !== '' && text.endsWith(end) ? text.slice(0, -end.length) : text
