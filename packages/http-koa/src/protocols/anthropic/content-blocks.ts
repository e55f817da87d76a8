import { z } from 'zod'
import { boolean, list, object } from '../../fields/fields.js'

/** A text, or a list of blocks whose types are looked at one by one. */
export const blocksSchema = z
  .custom<string | readonly unknown[]>(
    (value) => typeof value === 'string' || Array.isArray(value),
    'a string or an array of content blocks',
  )
  .meta({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'object' } }] })

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

/** The blocks that a model which takes text only can be given. */
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
export const blockTypes: readonly string[] = blockSchema.options.map(
  ({ shape }) => shape.type.value,
)
