import type { ArgumentsFormat, CallFormat, ChatFormat } from './chat-format.js'
import { anyText, callObject, toolName } from './chat-format.js'

const json = { kind: 'json' } as const

/** The format of calls that begin with this mark. */
const calls = (head: string, written: ArgumentsFormat, closings: readonly string[] = []) => {
  return { section: '', head, arguments: written, closings }
}

/**
 * Formats that templates do not render: of models trained on several formats, and of models whose template has no calls.
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

/** Formats that are only recognised if the whole answer is a call without a mark before it. */
export const bareCalls: readonly CallFormat[] = [
  calls('', callObject, [';']),
  calls('```json', callObject, ['```']),
  calls('```', callObject, ['```']),
  calls(`${toolName}[ARGS]`, json),
  calls(toolName, json),
].map((call) => ({ ...call, startsOnly: true }))

/** Whether it is the template of gpt-oss. */
export const isHarmony = (source: string): boolean =>
  ['<|channel|>', '<|start|>', '<|message|>', 'analysis'].every((mark) => source.includes(mark))

const closings = ['<|call|>', '<|end|>', '<|return|>', '<|start|>assistant']

/** The ways in which the arguments' type is written, or left out. */
const types = ['', ` <|constrain|>${anyText}`, anyText]
const heads = types.flatMap((type) => [
  `<|channel|>${anyText} to=functions.${toolName}${type}<|message|>`,
  ` to=functions.${toolName}<|channel|>${anyText}${type}<|message|>`,
])

/**
 * The format of gpt-oss. It cannot be learned from the template, which renders earlier calls differently
 * (`assistant to=functions.add<|channel|>commentary json<|message|>`) than the model writes them
 * (`<|channel|>commentary to=functions.add <|constrain|>json<|message|>`), and never renders the channel of a preamble
 * for the user.
 */
export const harmonyFormat: ChatFormat = {
  showsTools: true,
  // used where arguments are constrained, with one mark for all tools
  own: calls(`<|channel|>${anyText} to=functions.`, callObject),
  calls: [...heads.map((head) => calls(head, json, closings)), ...commonCalls, ...bareCalls],
  thinking: { open: '<|channel|>analysis<|message|>', close: '<|end|>' },
  frame: {
    open: '<|channel|>final<|message|>',
    closings: ['<|channel|>commentary<|message|>', '<|channel|>final<|message|>', ...closings],
  },
  shortIds: false,
}
