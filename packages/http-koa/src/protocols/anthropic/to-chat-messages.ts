import type { ChatMessage, ChatToolCall } from '@cllm/core'
import { z } from 'zod'
import { partsSchema } from '../../chat/chat-messages.js'
import { behind, filePart, joined, leftOut, withNames } from '../../chat/message-content.js'
import type { ContentPart } from '../../chat/message-content.js'
import { boolean, isObject, list, object, type JsonObject } from '../../fields/fields.js'
import { expectedField, noMedia } from '../../request/refusals.js'

/** A text, or a list of blocks, which are checked later one by one. */
export const blocksSchema = partsSchema('a string or an array of content blocks')

/** The messages of a conversation, at least one. */
export const messagesSchema = list(
  z.object(
    {
      role: z.enum(['user', 'assistant', 'system'], 'user or assistant'),
      content: blocksSchema,
    },
    'a message',
  ),
  'an array of messages',
)

const text = z.object({ type: z.literal('text'), text: z.string('a string') })
const thinking = z.object({ type: z.literal('thinking'), thinking: z.string('a string') })
const redacted = z.object({ type: z.literal('redacted_thinking') })
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: z.string('a string'),
  name: z.string('a name').min(1, 'a name'),
  input: object,
})
const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string('a string'),
  content: blocksSchema.nullish(),
  is_error: boolean.nullish(),
})

/** The blocks for models that take only text. */
export const blockSchema = z.discriminatedUnion('type', [
  text,
  thinking,
  redacted,
  toolUse,
  toolResult,
])

/** A checked block. */
export type ContentBlock = z.output<typeof blockSchema>

/** Their names, for messages. */
const blockTypes: readonly string[] = blockSchema.options.map(({ shape }) => shape.type.value)

/**
 * The conversation in the form that chat templates take.
 *
 * @throws CllmError `unsupported` for documents, `invalid_request` for what is no block
 */
export function toChatMessages(
  system: string | readonly unknown[] = '',
  messages: z.output<typeof messagesSchema>,
): ChatMessage[] {
  const preamble = textsOf(system, 'system')
    .filter((text) => text !== '')
    .join('\n\n')
  const last = messages.findLastIndex(({ role }) => role !== 'system')
  const turns = messages.flatMap(({ role, content }, index) => {
    const field = `messages.${index}.content`
    if (role === 'system') return [{ role, content: textsOf(content, field).join('\n\n') }]
    const blocks = blocksOf(content, field, index < last)
    return role === 'assistant' ? [assistantTurn(blocks)] : userTurns(blocks, field)
  })
  // some clients first send an empty conversation, to see whether the server answers
  if (turns.length === 0) turns.push({ role: 'user', content: '' })
  return withNames(preamble === '' ? turns : [{ role: 'system', content: preamble }, ...turns])
}

function assistantTurn(blocks: readonly ShownBlock[]): ChatMessage {
  const calls: ChatToolCall[] = []
  const texts: string[] = []
  let reasoning = ''
  for (const block of blocks) {
    if (block.type === 'text' && block.text !== '') texts.push(block.text)
    else if (block.type === 'thinking') reasoning += block.thinking
    else if (block.type === 'tool_use') {
      const { id, name, input } = block
      calls.push({ id, type: 'function', function: { name, arguments: input } })
    }
  }
  return {
    role: 'assistant',
    content: texts.join('\n\n'),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** The messages of a user's turn: tools' results become separate messages, in their place. */
function userTurns(blocks: readonly ShownBlock[], field: string): ChatMessage[] {
  const turns: ChatMessage[] = []
  let parts: ContentPart[] = []
  const flush = () => {
    if (parts.length > 0) turns.push({ role: 'user', ...joined(parts, '\n\n') })
    parts = []
  }
  for (const [index, block] of blocks.entries()) {
    if (block.type === 'text') parts.push(block.text)
    if (block.type === 'image') parts.push(block.image)
    if (block.type !== 'tool_result') continue
    flush()
    const { tool_use_id: id, content, is_error: isError } = block
    const result = joined(partsOf(content ?? '', `${field}.${index}.content`, true), '\n')
    turns.push({
      role: 'tool',
      ...(isError === true ? behind('Error: ', result) : result),
      tool_call_id: id,
    })
  }
  flush()
  return turns.length === 0 ? [{ role: 'user', content: '' }] : turns
}

function textsOf(content: string | readonly unknown[], field: string): string[] {
  return partsOf(content, field).map((part, index) => {
    if (typeof part === 'string') return part
    throw noMedia(`${field}.${index}`, part.type)
  })
}

function partsOf(content: string | readonly unknown[], field: string, mayLack = false) {
  return blocksOf(content, field, mayLack).map((block, index) => {
    if (block.type === 'text') return block.text
    if (block.type === 'image') return block.image
    throw expectedField(`${field}.${index}`, `a block of the type text, instead got ${block.type}`)
  })
}

/** A block, or an image. */
type ShownBlock = ContentBlock | { readonly type: 'image'; readonly image: ContentPart }

/** @param mayLack - whether a text takes the place of a document, see `shownMessages` */
function blocksOf(
  content: string | readonly unknown[],
  field: string,
  mayLack: boolean,
): readonly ShownBlock[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return content.map((block, index) => blockOf(block, `${field}.${index}`, mayLack))
}

function blockOf(block: unknown, field: string, mayLack: boolean): ShownBlock {
  const { type, source }: JsonObject = isObject(block) ? block : {}
  if (type === 'image') {
    const { type: kind, data, url }: JsonObject = isObject(source) ? source : {}
    const given = kind === 'base64' ? data : kind === 'url' ? url : ''
    return { type, image: filePart(type, given, field) }
  }
  if (type === 'document' && mayLack) return { type: 'text', text: leftOut(type) }
  if (typeof type === 'string' && !blockTypes.includes(type)) throw noMedia(field, type)
  const checked = blockSchema.safeParse(block)
  if (checked.success) return checked.data
  const [{ path, message }] = checked.error.issues as [z.core.$ZodIssue]
  throw expectedField([field, ...path].join('.'), path.length === 0 ? 'a content block' : message)
}
