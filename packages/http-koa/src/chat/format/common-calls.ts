import { type CallFormat, toolName } from './chat-format.js'

const object = { kind: 'object', nameKey: 'name', argumentsKey: 'arguments' } as const

/**
 * What models write that were trained on several formats, and what models write whose template has
 * none: the history in the template does not show these.
 */
export const commonCalls: readonly CallFormat[] = [
  { section: '', head: '<tool_call>', arguments: object, closings: ['</tool_call>'], next: '' },
  {
    section: '',
    head: '[TOOL_CALLS]',
    arguments: { ...object, isList: true },
    closings: [],
    next: '',
  },
  {
    section: '',
    head: `[TOOL_CALLS]${toolName}[ARGS]`,
    arguments: { kind: 'json' },
    closings: [],
    next: '',
  },
  {
    section: '',
    head: `[TOOL_CALLS]${toolName}`,
    arguments: { kind: 'json' },
    closings: [],
    next: '',
  },
  { section: '', head: '<|tool_call|>', arguments: object, closings: [], next: '' },
  {
    section: '<|tool_call_start|>[',
    head: toolName,
    arguments: { kind: 'literal', ends: ')' },
    closings: [']<|tool_call_end|>', '<|tool_call_end|>'],
    next: '',
  },
  { section: '', head: '<|python_tag|>', arguments: object, closings: [';'], next: ';' },
]

/** The same where a whole answer is a call, and nothing stands before it. */
export const bareCalls: readonly CallFormat[] = [
  { startsOnly: true, section: '', head: '', arguments: object, closings: [';'], next: ';' },
  {
    startsOnly: true,
    section: '',
    head: '```json',
    arguments: object,
    closings: ['```'],
    next: '',
  },
  { startsOnly: true, section: '', head: '```', arguments: object, closings: ['```'], next: '' },
  {
    startsOnly: true,
    section: '',
    head: `${toolName}[ARGS]`,
    arguments: { kind: 'json' },
    closings: [],
    next: '',
  },
  {
    startsOnly: true,
    section: '',
    head: toolName,
    arguments: { kind: 'json' },
    closings: [],
    next: '',
  },
]
