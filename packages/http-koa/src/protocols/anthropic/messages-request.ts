import type { EngineClient } from '@cllm/core'
import { z } from 'zod'
import { type ToolDefinition, toTool } from '../../chat/format/chat-format.js'
import { type ForcedTools, forcedTools, planAnswer } from '../../chat/plan-answer.js'
import { prepareChat, type PreparedChat, thinkingVariables } from '../../chat/prepare-chat.js'
import { commonFields, commonSettings, usualFields } from '../../fields/generation-fields.js'
import { boolean, integer, largest, list, object, text } from '../../fields/fields.js'
import { requestFor, schemaConstraint } from '../../request/build-request.js'
import type { ProtocolDefaults, FieldConstraint } from '../../request/build-request.js'
import { refusing, unsupported } from '../../request/refusals.js'
import { breakpointOf, cacheControl, tokensUpTo, upToMark } from './cache-control.js'
import { blocksSchema, messagesSchema, toChatMessages } from './to-chat-messages.js'

const toolSchema = z.object(
  {
    type: text.nullish(),
    name: z.string('a name').regex(/^[\w.-]{1,128}$/, 'a name of up to 128 letters, digits, _ . -'),
    description: text.nullish(),
    input_schema: object.optional(),
    strict: boolean.nullish(),
    cache_control: cacheControl,
  },
  'a tool with a name and an input_schema',
)

const choiceTypes = ['auto', 'any', 'tool', 'none'] as const

const refused = refusing({
  thread: [object, 'nothing is stored here; send the whole conversation as messages'],
  mcp_servers: [z.unknown(), 'call the servers yourself, and offer their tools'],
})

/** The fields on which the prompt depends. */
const promptFields = {
  model: text.optional(),
  ...refused.fields,
  messages: messagesSchema,
  system: blocksSchema.optional(),
  tools: list(toolSchema, 'an array of tools', { most: [1024, 'at most 1024 tools'] }).optional(),
  tool_choice: z
    .object(
      {
        type: z.enum(choiceTypes, `one of ${choiceTypes.join(', ')}`),
        name: text.optional(),
        disable_parallel_tool_use: boolean.optional(),
      },
      'an object with a type',
    )
    .optional(),
  thinking: z
    .object(
      {
        type: z.enum(['enabled', 'disabled', 'adaptive'], 'enabled, disabled or adaptive'),
        budget_tokens: integer(1, largest).optional(),
      },
      'an object with a type',
    )
    .optional(),
}

/** The body of `POST /v1/messages/count_tokens`. */
export const countSchema = z.object(promptFields)

/** The body of `POST /v1/messages`. */
export const messageSchema = z.object({
  ...promptFields,
  max_tokens: integer(1, largest),
  stop_sequences: list(text.min(1, 'a non-empty string'), 'an array of strings', {
    most: [32, 'at most 32 strings'],
  }).optional(),
  stream: boolean.optional(),
  temperature: usualFields.temperature,
  top_k: usualFields.top_k,
  top_p: usualFields.top_p,
  metadata: object.optional(),
  cache_control: cacheControl,
  output_config: z.looseObject({ format: object.nullish() }, 'an object').optional(),
  // its former name
  output_format: object.optional(),
  ...commonFields,
})

/** A checked body of either route. */
type PromptFields = z.output<typeof countSchema>
type MessageFields = z.output<typeof messageSchema>

/** The conversation, prepared for the model's template. */
export async function toPrompt(fields: PromptFields, client: EngineClient): Promise<PreparedChat> {
  refused.check(fields)
  const { tools = [], tool_choice: choice, thinking } = fields
  const isAuto = choice === undefined || choice.type === 'auto'
  return await prepareChat(client, {
    messages: toChatMessages(fields.system, fields.messages),
    tools: tools.map(toolOf),
    mayCall: choice?.type !== 'none',
    strict: isAuto ? tools.flatMap(({ name, strict }) => (strict === true ? [name] : [])) : [],
    template: {
      addGenerationPrompt: true,
      // An answer that the client has begun is continued.
      continueFinalMessage: fields.messages.at(-1)?.role === 'assistant',
      variables: thinkingVariables(thinking && thinking.type !== 'disabled'),
    },
    mostCalls: choice?.disable_parallel_tool_use === true ? 1 : undefined,
  })
}

/** A message to answer. */
export type MessageRequest = Awaited<ReturnType<typeof toMessageRequest>>

/** Makes the engine's request from a body. */
export async function toMessageRequest(
  fields: MessageFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
) {
  const prepared = await toPrompt(fields, client)
  const wanted = { forced: forcedBy(fields), asked: [outputConstraint(fields)] }
  const plan = await planAnswer(client, prepared, wanted)
  const { prompt, form, constraint, marks } = plan
  const budget = fields.thinking?.budget_tokens
  const asked = breakpointOf(fields)
  // marked parts are only kept if there is a tier behind the slots
  const mark = asked && (await client.statistics()).cache ? asked : undefined
  const settings = {
    ...commonSettings(fields),
    maxTokens: fields.max_tokens,
    stop: fields.stop_sequences,
    constraint,
    marks,
    keepMs: mark?.keepMs,
  }
  const marked = mark && upToMark(fields, mark)
  const keptTokens = marked && (await tokensUpTo(client, prepared, await toPrompt(marked, client)))
  const isLimited = budget !== undefined && fields.thinking?.type !== 'disabled'
  return {
    request: requestFor(client, prompt, settings, defaults),
    form,
    /** How many of the prompt's tokens the client wants to be cached; undefined: it does not say. */
    keptTokens: mark && (keptTokens ?? Infinity),
    /** The limit on thinking. */
    limit: isLimited ? { budget, form } : undefined,
  }
}

/**
 * The schema for the answer.
 *
 * @throws CllmError `invalid_request` for what is no JSON schema
 */
function outputConstraint(fields: MessageFields): FieldConstraint | undefined {
  const older = fields.output_format
  const format = fields.output_config?.format ?? older
  if (format === undefined) return undefined
  const field = format === older ? 'output_format' : 'output_config.format'
  const schema = format['type'] === 'json_schema' ? format['schema'] : undefined
  return schemaConstraint(field, schema, `${field}.schema`)
}

/** The tools of which `tool_choice` requires a call. */
function forcedBy({ tool_choice: choice, tools = [] }: PromptFields): ForcedTools | undefined {
  if (choice?.type !== 'any' && choice?.type !== 'tool') return undefined
  const { disable_parallel_tool_use: isOne, name = '' } = choice
  return forcedTools(tools.map(toolOf), 'the name of one of the tools', {
    name: choice.type === 'tool' ? name : undefined,
    several: isOne === undefined ? undefined : !isOne,
  })
}

function toolOf(tool: z.output<typeof toolSchema>, index = 0): ToolDefinition {
  const { type, name, description, input_schema: parameters } = tool
  if (type === undefined || type === null || type === 'custom') {
    return toTool({ name, description, parameters })
  }
  const kind = type.replace(/_\d{8}$/, '')
  if (Object.hasOwn(tools, kind)) return toTool({ name, ...tools[kind] })
  const why = type.startsWith('computer_')
    ? 'is not defined here; describe it as a tool with an input_schema'
    : "is run by Anthropic's servers only"
  throw unsupported(`tools.${index}`, `${type.slice(0, 40)} ${why}`)
}

const textType = { type: 'string' }
const lineType = { type: 'integer' }
const pathType = { type: 'string', description: 'An absolute path' }

const editing = (commands: readonly string[], more: object) => ({
  type: 'object',
  properties: {
    command: { type: 'string', enum: commands },
    path: pathType,
    view_range: {
      type: 'array',
      items: lineType,
      description: 'First and last line; -1 is the end',
    },
    file_text: textType,
    old_str: textType,
    new_str: textType,
    insert_line: lineType,
    ...more,
  },
  required: ['command'],
})

/** Tools of Anthropic that the client runs, by type without its date. Anthropic's models know them without a definition. */
const tools: Readonly<
  Record<string, Pick<ToolDefinition['function'], 'description' | 'parameters'>>
> = {
  bash: {
    description: 'Run a command in a shell that stays open between calls.',
    parameters: {
      type: 'object',
      properties: {
        command: textType,
        restart: {
          type: 'boolean',
          description: 'Start a new shell in place of running a command',
        },
      },
    },
  },
  text_editor: {
    description: 'View, create and edit text files.',
    parameters: editing(['view', 'create', 'str_replace', 'insert', 'undo_edit'], {}),
  },
  memory: {
    description: 'Read and write the files under /memories, which later conversations have, too.',
    parameters: editing(['view', 'create', 'str_replace', 'insert', 'delete', 'rename'], {
      insert_text: textType,
      old_path: pathType,
      new_path: pathType,
    }),
  },
}
