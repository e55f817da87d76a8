import { defined, ownEntry } from '@cllm/core'
import type { FoundState, ChatMessage, ChatToolCall, Logger } from '@cllm/core'
import { requestId } from '@cllm/host'
import { z } from 'zod'
import { argumentsOf, contentSchema } from '../../../chat/chat-messages.js'
import { contentOf, withNames } from '../../../chat/message-content.js'
import { list } from '../../../fields/fields.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import type { Call } from '../../../routes/route.js'
import { joinedName } from '../openai-tools.js'

/** An item of a conversation, from a client or an answer. Stored items always have an id. */
export interface KeptItem {
  readonly id: string
  readonly type: string
  readonly [member: string]: unknown
}

/** What a response continues. */
export interface Earlier {
  readonly items: readonly KeptItem[]
  /** The program of what continues it: the conversation's id, or the first response's. Undefined: it continues nothing. */
  readonly program?: string
}

/** A stored response. */
export interface ResponseObject {
  readonly id: string
  readonly object: 'response'
  readonly status: string
  readonly background?: unknown
  readonly previous_response_id: string | null
  readonly output: readonly KeptItem[]
  readonly [member: string]: unknown
}

/** A conversation, which joins several turns. */
export interface ConversationObject {
  readonly id: string
  readonly object: 'conversation'
  /** Seconds since the epoch. */
  readonly created_at: number
  readonly metadata: Readonly<Record<string, unknown>>
}

/** A response with the items that it answers, or a conversation with all its items. */
export interface Kept<Kind = ResponseObject | ConversationObject> {
  readonly object: Kind
  readonly items: readonly KeptItem[]
  /** The request's fields while it is computed in the background, with which another server can continue it. */
  readonly fields?: object
  /** The server that computes it, and touches its file until the end is stored; undefined: none. */
  readonly by?: string | undefined
}

/** A stored object with its file. */
export type Found<Kind = Kept['object']> = Kept<Kind> & { readonly file: FoundState }

/** The most characters of remembered items. */
const mostRecent = 2 ** 24

/** The items of recent answers, stored or not, as some clients only send the ids of such items. */
export class RecentItems {
  readonly #items = new Map<string, { readonly item: KeptItem; readonly size: number }>()
  #size = 0

  add(owner: string, items: readonly KeptItem[]): void {
    for (const item of items) {
      const name = scopeOf(owner, item.id)
      const size = JSON.stringify(item).length
      // an answer whose client leaves at its end is added twice
      this.#size += size - (this.#items.get(name)?.size ?? 0)
      this.#items.set(name, { item, size })
    }
    for (const [name, { size }] of this.#items) {
      if (this.#size <= mostRecent) break
      this.#items.delete(name)
      this.#size -= size
    }
  }

  /**
   * An input with the items whose ids it has, except items of earlier turns, which are in the conversation already.
   *
   * @param read - reads a stored response: items that are not remembered are from before the server's start, or from
   *   another server
   * @throws `unsupported` for the first item that is not found
   */
  async filled(
    owner: string,
    input: Input | undefined,
    before: readonly KeptItem[],
    read?: (response: string) => Promise<Pick<Kept<ResponseObject>, 'object'>>,
  ): Promise<Input> {
    const filled: Item[] = []
    for (const [index, item] of itemsOf(input ?? []).entries()) {
      const { type, id } = item
      if (type !== 'item_reference' || before.some((one) => one.id === id)) filled.push(item)
      else {
        const find = () => this.#items.get(scopeOf(owner, id))?.item as Item | undefined
        if (find() === undefined) {
          const of = await read?.(responseOf(id)).catch(() => undefined)
          this.add(owner, of?.object.output ?? [])
        }
        filled.push(find() ?? noSuchItem(`input.${index}`))
      }
    }
    return filled
  }
}

/** The id of the response, which is part of an item's id. */
const responseOf = (item: unknown): string => String(item).replace(/^[a-z]+_\d+_/, '')

function noSuchItem(field: string): never {
  throw unsupported(field, 'there is no such item here; send the item itself')
}

/** The key of an owner's item or response; both parts can contain any characters. */
export const scopeOf = (owner: string, id: unknown): string => JSON.stringify([owner, id])

/** Whether it is an unfinished response. */
export const isOpen = ({ object }: Kept): boolean =>
  'status' in object && object.status === 'in_progress'

const roles = ['system', 'developer', 'user', 'assistant'] as const

const itemSchema = z.looseObject(
  {
    type: z.string('a string').optional(),
    role: z.enum(roles, `one of ${roles.join(', ')}`).optional(),
    content: contentSchema.nullish(),
    call_id: z.string('a string').optional(),
    name: z.string('a name').optional(),
    namespace: z.string('a name').nullish(),
    arguments: z.string('a JSON object as a string').optional(),
    output: contentSchema.optional(),
    input: z.unknown().optional(),
  },
  'an object',
)

type Item = z.output<typeof itemSchema>

/** Items of an input. */
export const itemsSchema = list(itemSchema, 'an array of items')

/** The input of a response: a string, or messages, tool calls and their results. */
export const inputSchema = z.union(
  [z.string('a string'), itemsSchema],
  'a string or an array of items',
)

type Input = z.output<typeof inputSchema>

const itemsOf = (input: Input): Item[] =>
  typeof input === 'string' ? [{ role: 'user', content: input }] : input

/**
 * The items of an input with ids, as they are stored.
 *
 * @param before - the items stored before them, whose ids are not used again
 */
export function keptInput(
  { random }: Pick<Call, 'random'>,
  input: Input = [],
  before: readonly KeptItem[] = [],
): readonly KeptItem[] {
  const taken = new Set(before.map(({ id }) => id))
  return itemsOf(input).flatMap((item) => {
    const { id, type = 'message', role, content: said } = item
    if (type === 'item_reference') return []
    const isModel = role === 'assistant'
    const part = isModel ? { type: 'output_text', annotations: [] } : { type: 'input_text' }
    const content = typeof said === 'string' ? [{ ...part, text: said }] : said
    const isOwn = typeof id === 'string' && !taken.has(id)
    const name = isOwn ? id : `${ownEntry(prefixes, type) ?? 'item'}_${requestId(random)}`
    taken.add(name)
    return [
      { status: 'completed', ...item, id: name, type, ...(type === 'message' && { content }) },
    ]
  })
}

const prefixes: Readonly<Record<string, string>> = { message: 'msg', function_call: 'fc' }

/**
 * The conversation as chat templates know it.
 *
 * @param before - the stored items of earlier turns
 * @param name - the name of the field, for messages
 */
export function toMessages(
  instructions: string,
  given: Input,
  logger: Logger,
  before: readonly KeptItem[] = [],
  name = 'input',
): ChatMessage[] {
  const messages: ChatMessage[] = []
  if (instructions !== '') messages.push({ role: 'system', content: instructions })
  // stored items were checked when they arrived
  const input = [...(before as readonly Item[]), ...itemsOf(given)]
  /** The calls of the last message. */
  let calls: ChatToolCall[] = []
  /** The assistant's reasoning before its next message. */
  let thoughts: Pick<ChatMessage, 'reasoning_content'> = {}
  for (const [index, item] of input.entries()) {
    const field = `${name}.${index - before.length}`
    switch (item.type ?? 'message') {
      case 'message':
        messages.push({ ...messageOf(item, field), ...(item.role === 'assistant' && thoughts) })
        calls = []
        thoughts = {}
        break
      case 'custom_tool_call':
      case 'function_call':
        calls.push(callOf(item, field))
        if (calls.length > 1) break
        messages.push({ ...saidBefore(messages), ...thoughts, tool_calls: calls })
        thoughts = {}
        break
      case 'custom_tool_call_output':
      case 'function_call_output':
        messages.push(resultOf(item, field))
        calls = []
        break
      case 'reasoning':
        thoughts = thoughtsOf(item, field)
        break
      case 'item_reference':
        if (before.some(({ id }) => id === item['id'])) break
        noSuchItem(field)
      default:
        // items of tools that only OpenAI's servers have
        logger.warn({ field, type: item.type?.slice(0, 40) }, 'an item of the input is passed over')
    }
  }
  // some clients first send an empty conversation, to see whether the server answers
  if (messages.every(({ role }) => role === 'system')) messages.push({ role: 'user', content: '' })
  return withNames(messages)
}

function messageOf({ role, content }: Item, field: string): ChatMessage {
  if (role === undefined) throw expectedField(`${field}.role`, `one of ${roles.join(', ')}`)
  const said = contentOf(content ?? '', `${field}.content`, role)
  return { role: role === 'developer' ? 'system' : role, ...said }
}

function callOf(item: Item, field: string): ChatToolCall {
  const { type, name, namespace, call_id: id } = item
  if (name === undefined) throw expectedField(`${field}.name`, 'a name')
  // for models, a free-form tool is a function with one text argument
  const given =
    type === 'custom_tool_call'
      ? { input: item.input ?? '' }
      : argumentsOf(item.arguments ?? '', `${field}.arguments`)
  return {
    ...defined({ id }),
    type: 'function',
    function: { name: joinedName(name, namespace), arguments: given },
  }
}

/** Reasoning in the form of templates; empty if the client sent only a summary, or reasoning that OpenAI has encrypted. */
function thoughtsOf({ content }: Item, field: string): Pick<ChatMessage, 'reasoning_content'> {
  const { content: thought } = contentOf(content ?? '', `${field}.content`)
  return thought === '' ? {} : { reasoning_content: thought }
}

/** Removes and returns the assistant's message to which calls belong, or makes one. */
const saidBefore = (messages: ChatMessage[]): ChatMessage =>
  messages.at(-1)?.role === 'assistant' ? messages.pop()! : { role: 'assistant', content: '' }

function resultOf({ call_id: id, output }: Item, field: string): ChatMessage {
  if (id === undefined) throw expectedField(`${field}.call_id`, 'the id of a call')
  return { role: 'tool', ...contentOf(output ?? '', `${field}.output`), tool_call_id: id }
}
