import type {
  ChatRenderOptions,
  EngineClient,
  GenerateRequest,
  Logger,
  OutputConstraint,
} from '@cllm/core'
import { z } from 'zod'
import type { AnswerForm } from '../../../chat/answer/create-answer-parser.js'
import { messagesSchema, toChatMessages, turnOptions } from '../../../chat/chat-messages.js'
import { toTool } from '../../../chat/format/chat-format.js'
import { planAnswer } from '../../../chat/plan-answer.js'
import { efforts, prepareChat, thinkingVariables } from '../../../chat/prepare-chat.js'
import { boolean, integer, largest, list, object } from '../../../fields/fields.js'
import { buildRequest } from '../../../request/build-request.js'
import { grammarConstraint } from '../../../request/constraint.js'
import type { ThinkingLimit } from '../../../request/limit-thinking.js'
import { type ProtocolDefaults, withModelDefaults } from '../../../request/protocol-defaults.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import { maxTokensField, sharedFields, sharedSettings, toMaxTokens } from '../openai-fields.js'
import { formatConstraint, guidedConstraints, schemaConstraint } from '../structured-output.js'
import {
  allowedTools,
  customNames,
  forcedTools,
  functionsOfChat,
  strictNames,
  toolChoiceSchema,
  toolsSchema,
} from '../tools/openai-tools.js'

/** The body of `POST /v1/chat/completions`. */
export const chatSchema = z.object({
  messages: messagesSchema,
  ...sharedFields,
  max_completion_tokens: maxTokensField.optional(),
  logprobs: boolean.optional(),
  top_logprobs: integer(0, 20).optional(),
  tools: toolsSchema.optional(),
  tool_choice: toolChoiceSchema.optional(),
  functions: z.array(z.unknown(), 'an array').nullish(),
  function_call: z.unknown().optional(),
  parallel_tool_calls: boolean.optional(),
  chat_template_kwargs: object.optional(),
  reasoning_effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish(),
  thinking_budget_tokens: integer(-1, largest).optional(),
  reasoning_budget: integer(-1, largest).optional(),
  add_generation_prompt: boolean.optional(),
  continue_final_message: boolean.optional(),
  modalities: list(z.string('text'), 'an array of modalities').optional(),
})

/** A checked body. */
export type ChatFields = z.output<typeof chatSchema>

/** A chat for the engine. */
export interface ChatRequest {
  readonly request: GenerateRequest
  readonly form: AnswerForm
  /** The free-form tools. */
  readonly customs: ReadonlySet<string>
  /** What the answer is held to when its thoughts were ended. */
  readonly afterThinking?: OutputConstraint | undefined
}

/** Makes the engine's request of a body. */
export async function toChatRequest(
  fields: ChatFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
  logger: Logger,
): Promise<ChatRequest> {
  const logprobs = logprobsOf(fields)
  if ((fields.functions ?? []).length > 0) {
    throw unsupported('functions', 'OpenAI has replaced them: use tools and tool_choice')
  }
  const other = fields.modalities?.find((modality) => modality !== 'text')
  if (other !== undefined) {
    throw unsupported('modalities', `answers are text only, instead got ${other.slice(0, 40)}`)
  }
  const functions = functionsOfChat(fields.tools ?? [], logger)
  const { offered, choice } = allowedTools(fields.tool_choice, functions)
  const tools = choice === 'none' ? [] : offered.map(toTool)
  const prepared = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools,
    strict: strictNames(choice, offered),
    template: renderOptions(fields),
    mostCalls: fields.parallel_tool_calls === false ? 1 : undefined,
  })
  const forced = forcedTools(choice, tools, fields.parallel_tool_calls)
  const asked = [
    formatConstraint(fields.response_format),
    grammarConstraint(fields.grammar),
    schemaConstraint(fields.json_schema),
    ...guidedConstraints(fields),
  ]
  const plan = await planAnswer(client, prepared, { asked, forced })
  const { prompt, form, constraint, afterThinking, marks } = plan
  const settings = await sharedSettings(fields, client)
  const maxTokens = toMaxTokens(fields.max_completion_tokens) ?? settings.maxTokens
  return {
    request: buildRequest(
      prompt,
      { ...settings, maxTokens, constraint, logprobs, marks },
      withModelDefaults(client, defaults),
    ),
    form,
    customs: customNames(offered),
    afterThinking,
  }
}

function renderOptions(fields: ChatFields): ChatRenderOptions {
  // thoughts that are to end at once are better not begun: a prompt may open them itself
  const effort = budgetOf(fields) === 0 ? 'none' : fields.reasoning_effort
  return {
    ...turnOptions(fields),
    variables: {
      ...thinkingVariables(effort),
      ...fields.chat_template_kwargs,
    },
  }
}

/** How long the model may think; undefined: as long as it does. */
export function thinkingLimit(
  fields: ChatFields,
  { form, afterThinking }: ChatRequest,
): ThinkingLimit | undefined {
  const budget = budgetOf(fields)
  return budget === undefined || budget < 0 ? undefined : { budget, form, afterThinking }
}

const budgetOf = ({
  thinking_budget_tokens: tokens,
  reasoning_budget: budget = tokens,
}: ChatFields): number | undefined => budget

/** How many of the likeliest tokens to return with each token; undefined: no logprobs. */
function logprobsOf({ logprobs, top_logprobs: top }: ChatFields): number | undefined {
  if (logprobs === true) return top ?? 0
  if (top === undefined || top === 0) return undefined
  throw expectedField('top_logprobs', 'logprobs to be true')
}
