import { defined, type EngineClient, type Logger } from '@cllm/core'
import { z } from 'zod'
import {
  fitConversation,
  efforts,
  prepareChat,
  thinkingVariables,
} from '../../../chat/prepare-chat.js'
import { planAnswer } from '../../../chat/plan-answer.js'
import { boolean, integer, largest, list, object, parseFields } from '../../../fields/fields.js'
import { requestFor } from '../../../request/build-request.js'
import type { ProtocolDefaults, FieldConstraint } from '../../../request/build-request.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import {
  maxTokensField,
  sharedFields,
  sharedSettings,
  askedConstraints,
  formatConstraint,
} from '../openai-fields.js'
import {
  customSchema,
  type ClientFunction,
  customAsFunction,
  functionFields,
  functionsOf,
  joinedName,
  offerTools,
  toolChoiceSchema,
} from '../openai-tools.js'
import type { KeptItems } from './kept-items.js'
import { type Earlier, type KeptItem, inputSchema, toMessages } from './response-items.js'

const toolSchema = z.looseObject({ type: z.string('a type') }, 'a tool with a type')
const functionSchema = z.object(functionFields)
const namespaceSchema = z.object({
  name: functionFields.name,
  tools: list(toolSchema, 'an array of tools'),
})

const { shape: shared } = z.object(sharedFields).omit({
  n: true,
  stream_options: true,
  max_tokens: true,
  n_predict: true,
  n_probs: true,
  grammar: true,
  response_format: true,
})

/** The body of `POST /v1/responses`. */
export const responsesSchema = z.object({
  input: inputSchema.optional(),
  ...shared,
  instructions: z.string('a string').optional(),
  max_output_tokens: maxTokensField.optional(),
  text: z.looseObject({ format: object.optional() }, 'an object').optional(),
  metadata: object.optional(),
  store: boolean.optional(),
  truncation: z.enum(['disabled', 'auto'], 'disabled or auto').optional(),
  tools: list(toolSchema, 'an array of tools', { most: [1024, 'at most 1024 tools'] }).optional(),
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: boolean.optional(),
  background: boolean.optional(),
  previous_response_id: z.string('the id of a response').optional(),
  conversation: z
    .union([z.string(), z.object({ id: z.string() })], 'the id of a conversation')
    .transform((given) => (typeof given === 'string' ? given : given.id))
    .optional(),
  prompt: z.unknown().optional(),
  top_logprobs: integer(0, 20).optional(),
  include: list(z.string('a string'), 'an array of strings').optional(),
  max_tool_calls: integer(1, largest).optional(),
  prompt_cache_key: z.string('a string').optional(),
  safety_identifier: z.string('a string').optional(),
  service_tier: z.string('a string').optional(),
  chat_template_kwargs: object.optional(),
  reasoning: z
    .looseObject({ effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish() }, 'an object')
    .nullish(),
})

/** A checked body. */
export type ResponsesFields = z.output<typeof responsesSchema>

/** Makes the engine's request from a body. */
export async function toResponsesRequest(
  fields: ResponsesFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
  logger: Logger,
  before: readonly KeptItem[],
) {
  const { tool_choice: choice, parallel_tool_calls: isParallel } = fields
  const { include = [], top_logprobs: top = 0 } = fields
  const offered = offerTools(functionsIn(fields.tools ?? [], logger), choice, isParallel)
  const chat = {
    messages: toMessages(fields.instructions ?? '', fields.input ?? [], logger, before),
    tools: offered.tools,
    mayCall: offered.mayCall,
    strict: offered.strict,
    template: {
      variables: { ...thinkingVariables(fields.reasoning?.effort), ...fields.chat_template_kwargs },
    },
    mostCalls: isParallel === false ? 1 : undefined,
  }
  const fits = fields.truncation === 'auto' ? await fitConversation(client, chat) : chat
  const prepared = await prepareChat(client, fits)
  const asked = [...textConstraint(fields.text), ...askedConstraints(fields)]
  const plan = await planAnswer(client, prepared, { asked, forced: offered.forced })
  const { prompt, form, constraint, marks } = plan
  const settings = {
    ...(await sharedSettings(fields, client)),
    maxTokens: fields.max_output_tokens,
    constraint,
    // the number of candidates with each token; undefined: no log probabilities
    logprobs: top > 0 || include.includes('message.output_text.logprobs') ? top : undefined,
    marks,
  }
  return {
    request: requestFor(client, prompt, settings, defaults),
    form,
    offered: offered.byName,
  }
}

/**
 * The functions and free-form tools, whose members are beside the type, and those in namespaces.
 *
 * @param namespace - the namespace of these tools
 */
function functionsIn(
  tools: readonly z.output<typeof toolSchema>[],
  logger: Logger,
  field = 'tools',
  namespace?: string,
): readonly ClientFunction[] {
  return functionsOf(tools, logger, (tool, index) => {
    const at = `${field}.${index}`
    if (tool.type === 'custom')
      return customAsFunction(parseFields(customSchema, tool, [at]), logger)
    if (tool.type === 'namespace') {
      const { name, tools: inner } = parseFields(namespaceSchema, tool, [at])
      return functionsIn(inner, logger, `${at}.tools`, name)
    }
    if (tool.type !== 'function') return undefined
    const read = parseFields(functionSchema, tool, [at])
    const called = { name: read.name, ...defined({ namespace }) }
    return { ...read, name: joinedName(read.name, namespace), called }
  })
}

/** The constraint of `text.format`: the formats of a chat, with the schema in another place. */
function textConstraint({ format }: NonNullable<ResponsesFields['text']> = {}): FieldConstraint[] {
  if (format === undefined) return []
  const given = format['type'] === 'json_schema' ? { ...format, json_schema: format } : format
  const found = formatConstraint(given)
  return found === undefined ? [] : [{ ...found, field: 'text.format' }]
}

const nothingStored =
  'nothing is stored here (--responses FOLDER would do so); send the whole conversation as input'

/**
 * The items of earlier turns that a body refers to.
 *
 * @param kept - undefined: nothing is stored
 * @throws `not_found` if there are no such turns, `unsupported` if nothing is stored
 */
export async function itemsBefore(
  fields: ResponsesFields,
  owner: string,
  kept: KeptItems | undefined,
): Promise<Earlier> {
  const { previous_response_id: previous, conversation, prompt, background } = fields
  if (prompt !== undefined)
    throw unsupported('prompt', 'no prompts are stored here; send them as input')
  if (kept === undefined) {
    const asked = Object.entries({ previous_response_id: previous, conversation, background })
    const field = asked.find(([, value]) => value !== undefined && value !== false)?.[0]
    if (field !== undefined) throw unsupported(field, nothingStored)
    return { items: [] }
  }
  if (previous !== undefined && conversation !== undefined) {
    throw expectedField('conversation', 'nothing beside previous_response_id')
  }
  if (previous !== undefined) return await kept.itemsUpTo(owner, previous)
  if (conversation === undefined) return { items: [] }
  const { items } = await kept.conversation(owner, conversation, 'conversation')
  return { items, program: conversation }
}
