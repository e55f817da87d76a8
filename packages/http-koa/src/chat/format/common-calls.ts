import { type ArgumentsFormat, type CallFormat, toolName } from './chat-format.js'

const object = { kind: 'object', nameKey: 'name', argumentsKey: 'arguments' } as const
const json = { kind: 'json' } as const

/** Calls that begin with this mark; `next` stands before further ones. */
const calls = (
  head: string,
  written: ArgumentsFormat,
  closings: readonly string[] = [],
  next = '',
): CallFormat => ({ section: '', head, arguments: written, closings, next })

/**
 * What models write that were trained on several formats, and what models write whose template has
 * none: the history in the template does not show these.
 */
export const commonCalls: readonly CallFormat[] = [
  calls('<tool_call>', object, ['</tool_call>']),
  calls('[TOOL_CALLS]', { ...object, isList: true }),
  calls(`[TOOL_CALLS]${toolName}[ARGS]`, json),
  calls(`[TOOL_CALLS]${toolName}`, json),
  calls('<|tool_call|>', object),
  {
    ...calls(toolName, { kind: 'literal', ends: ')' }, [']<|tool_call_end|>', '<|tool_call_end|>']),
    section: '<|tool_call_start|>[',
  },
  calls('<|python_tag|>', object, [';'], ';'),
]

/** The same where a whole answer is a call, and nothing stands before it. */
export const bareCalls: readonly CallFormat[] = [
  calls('', object, [';'], ';'),
  calls('```json', object, ['```']),
  calls('```', object, ['```']),
  calls(`${toolName}[ARGS]`, json),
  calls(toolName, json),
].map((call) => ({ ...call, startsOnly: true }))
