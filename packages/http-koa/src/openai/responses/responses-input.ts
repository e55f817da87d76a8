import { type ChatMessage, type ChatToolCall, CllmError } from '@cllm/core'
import { z } from 'zod'
import { argumentsOf, contentSchema, textOf } from '../../chat/chat-messages.js'
import { list } from '../../fields/list.js'
import { unsupported } from '../../request/unsupported.js'

const roles = ['system', 'developer', 'user', 'assistant'] as const

const itemSchema = z.looseObject(
  {
    type: z.string('a string').optional(),
    role: z.enum(roles, `one of ${roles.join(', ')}`).optional(),
    content: contentSchema.nullish(),
    call_id: z.string('a string').optional(),
    name: z.string('a name').optional(),
    arguments: z.string('a JSON object as a string').optional(),
    output: contentSchema.optional(),
  },
  'an object',
)

type Item = z.output<typeof itemSchema>

const items = list(itemSchema, 'an array of items', { least: [1, 'at least one item'] })

/** The input of a response: a string, or messages, tool calls and their results. */
export const inputSchema = z.union(
  [z.string('a string').min(1, 'a string'), items],
  'a string or an array of items',
)

/** The conversation as chat templates know it. */
export function toMessages(
  instructions: string,
  input: z.output<typeof inputSchema>,
): ChatMessage[] {
  const messages: ChatMessage[] = []
  if (instructions !== '') messages.push({ role: 'system', content: instructions })
  if (typeof input === 'string') return [...messages, { role: 'user', content: input }]
  const before = messages.length
  const names = new Map<string, string>()
  /** The calls of the last message. */
  let calls: ChatToolCall[] = []
  for (const [index, item] of input.entries()) {
    const field = `input.${index}`
    switch (item.type ?? 'message') {
      case 'message':
        messages.push(messageOf(item, field))
        calls = []
        break
      case 'function_call':
        addCall(messages, calls, callOf(item, field))
        names.set(item.call_id ?? '', item.name ?? '')
        break
      case 'function_call_output':
        messages.push(resultOf(item, names, field))
        calls = []
        break
      case 'reasoning': // earlier reasoning is not shown to the model again
        break
      default:
        throw unsupported(`${field}.type`, 'expected messages, function calls and their outputs')
    }
  }
  if (messages.length === before) throw expected('input', 'at least one message')
  return messages
}

function messageOf({ role, content }: Item, field: string): ChatMessage {
  if (role === undefined) throw expected(`${field}.role`, `one of ${roles.join(', ')}`)
  const text = textOf(content ?? '', `${field}.content`)
  return { role: role === 'developer' ? 'system' : role, content: text }
}

function callOf({ name, call_id: id, arguments: given }: Item, field: string): ChatToolCall {
  if (name === undefined) throw expected(`${field}.name`, 'a name')
  return {
    ...(id === undefined ? {} : { id }),
    type: 'function',
    function: { name, arguments: argumentsOf(given ?? '', `${field}.arguments`) },
  }
}

/** Attaches a call to the assistant's message before it. */
function addCall(messages: ChatMessage[], calls: ChatToolCall[], call: ChatToolCall): void {
  calls.push(call)
  if (calls.length > 1) return
  const last = messages.at(-1)
  if (last?.role === 'assistant') messages[messages.length - 1] = { ...last, tool_calls: calls }
  else messages.push({ role: 'assistant', content: '', tool_calls: calls })
}

function resultOf(
  { call_id: id, output }: Item,
  names: ReadonlyMap<string, string>,
  field: string,
): ChatMessage {
  if (id === undefined) throw expected(`${field}.call_id`, 'the id of a call')
  const name = names.get(id)
  return {
    role: 'tool',
    content: textOf(output ?? '', `${field}.output`),
    tool_call_id: id,
    ...(name === undefined ? {} : { name }),
  }
}

function expected(field: string, what: string): CllmError {
  return new CllmError('invalid_request', `${field}: expected ${what}`, { details: { field } })
}
