import { type ChatFormat, anyText, toolName } from './chat-format.js'
import { bareCalls, commonCalls } from './common-calls.js'

/** gpt-oss. */
export const isHarmony = (source: string): boolean =>
  source.includes('<|channel|>') &&
  source.includes('<|start|>') &&
  source.includes('<|message|>') &&
  source.includes('analysis')

const json = { kind: 'json' } as const
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
  own: {
    section: '',
    head: `<|channel|>${anyText} to=functions.`,
    arguments: { kind: 'object', nameKey: 'name', argumentsKey: 'arguments' },
    closings: [],
  },
  calls: [
    ...heads.map((head) => ({ section: '', head, arguments: json, closings, next: '' })),
    ...commonCalls,
    ...bareCalls,
  ],
  thinking: { open: '<|channel|>analysis<|message|>', close: '<|end|>' },
  frame: {
    open: '<|channel|>final<|message|>',
    closings: ['<|channel|>commentary<|message|>', '<|channel|>final<|message|>', ...closings],
  },
  shortIds: false,
}
