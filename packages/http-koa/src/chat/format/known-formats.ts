import type { ArgumentsFormat, CallFormat, ChatFormat } from './chat-format.js'
import { anyText, callObject, toolName } from './chat-format.js'

const json = { kind: 'json' } as const

/** Calls that begin with this mark. */
const calls = (head: string, written: ArgumentsFormat, closings: readonly string[] = []) => {
  return { section: '', head, arguments: written, closings }
}

/**
 * What models write that were trained on several formats, and what models write whose template has
 * none: the history in the template does not show these.
 */
export const commonCalls: readonly CallFormat[] = [
  calls('<tool_call>', callObject, ['</tool_call>']),
  calls('[TOOL_CALLS]', { ...callObject, isList: true }),
  calls(`[TOOL_CALLS]${toolName}[ARGS]`, json),
  calls(`[TOOL_CALLS]${toolName}`, json),
  calls('<|tool_call|>', callObject),
  {
    ...calls(toolName, { kind: 'literal', ends: ')' }, [']<|tool_call_end|>', '<|tool_call_end|>']),
    section: '<|tool_call_start|>[',
  },
  calls('<|python_tag|>', callObject, [';']),
]

/** The same where a whole answer is a call, and nothing stands before it. */
export const bareCalls: readonly CallFormat[] = [
  calls('', callObject, [';']),
  calls('```json', callObject, ['```']),
  calls('```', callObject, ['```']),
  calls(`${toolName}[ARGS]`, json),
  calls(toolName, json),
].map((call) => ({ ...call, startsOnly: true }))

/** gpt-oss. */
export const isHarmony = (source: string): boolean =>
  ['<|channel|>', '<|start|>', '<|message|>', 'analysis'].every((mark) => source.includes(mark))

const closings = ['<|call|>', '<|end|>', '<|return|>', '<|start|>assistant']

/** The type of the arguments is written in several ways, or not at all. */
const types = ['', ` <|constrain|>${anyText}`, anyText]
const heads = types.flatMap((type) => [
  `<|channel|>${anyText} to=functions.${toolName}${type}<|message|>`,
  ` to=functions.${toolName}<|channel|>${anyText}${type}<|message|>`,
])

/**
 * The format of gpt-oss. It cannot be learnt: what its template shows of earlier calls
 * (`assistant to=functions.add<|channel|>commentary json<|message|>`) is not what the model writes
 * (`<|channel|>commentary to=functions.add <|constrain|>json<|message|>`), and a preamble for the user
 * comes in a channel that the template never shows.
 */
export const harmonyFormat: ChatFormat = {
  showsTools: true,
  // where arguments are constrained, which knows one mark for all tools
  own: calls(`<|channel|>${anyText} to=functions.`, callObject),
  calls: [...heads.map((head) => calls(head, json, closings)), ...commonCalls, ...bareCalls],
  thinking: { open: '<|channel|>analysis<|message|>', close: '<|end|>' },
  frame: {
    open: '<|channel|>final<|message|>',
    closings: ['<|channel|>commentary<|message|>', '<|channel|>final<|message|>', ...closings],
  },
  shortIds: false,
}
