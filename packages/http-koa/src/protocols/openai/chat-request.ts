import type { FinishReason } from '@cllm/core'
import { z } from 'zod'
import type { CallOf } from '../../routes/route.js'
import { messagesSchema, toChatMessages, turnOptions } from '../../chat/chat-messages.js'
import { planAnswer } from '../../chat/plan-answer.js'
import { efforts, prepareChat, thinkingVariables } from '../../chat/prepare-chat.js'
import { boolean, integer, largest, list, object } from '../../fields/fields.js'
import { type ProtocolDefaults, requestFor } from '../../request/build-request.js'
import { expectedField, refusing, unsupported } from '../../request/refusals.js'
import { maxTokensField, sharedFields, sharedSettings, askedConstraints } from './openai-fields.js'
import { functionsOfChat, offerTools, toolChoiceSchema, toolsSchema } from './openai-tools.js'

const refused = refusing({
  functions: [z.array(z.unknown(), 'an array'), 'replaced by tools and tool_choice'],
  function_call: [z.unknown(), 'replaced by tools and tool_choice', 'auto', 'none'],
  echo: [boolean, 'an answer does not repeat the message that it continues'],
  reasoning_format: [z.unknown(), 'thoughts come as reasoning_content', 'auto', 'deepseek'],
})

/** The body of `POST /v1/chat/completions`. */
export const chatSchema = z.object({
  messages: messagesSchema,
  ...sharedFields,
  max_completion_tokens: maxTokensField.optional(),
  logprobs: boolean.optional(),
  top_logprobs: integer(0, 20).optional(),
  post_sampling_probs: boolean.optional(),
  tools: toolsSchema.optional(),
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: boolean.optional(),
  chat_template_kwargs: object.optional(),
  reasoning_effort: z.enum(efforts, `one of ${efforts.join(', ')}`).nullish(),
  thinking_budget_tokens: integer(-1, largest).optional(),
  reasoning_budget: integer(-1, largest).optional(),
  reasoning_budget_tokens: integer(-1, largest).optional(),
  add_generation_prompt: boolean.optional(),
  continue_final_message: boolean.optional(),
  modalities: list(z.string('text'), 'an array of modalities').optional(),
  ...refused.fields,
})

/** A chat for the engine. */
export type ChatRequest = Awaited<ReturnType<typeof toChatRequest>>

/** Makes the engine's request from a body. */
export async function toChatRequest(call: CallOf<typeof chatSchema>, defaults: ProtocolDefaults) {
  const { fields, logger } = call
  const { model, client } = call.open(fields.model)
  const { n_probs: most = 0, parallel_tool_calls: isParallel } = fields
  const { logprobs = most > 0 } = fields
  const { top_logprobs: top = logprobs ? most : 0 } = fields
  if (top > 0 && !logprobs) throw expectedField('top_logprobs', 'logprobs to be true')
  refused.check(fields)
  const other = fields.modalities?.find((modality) => modality !== 'text')
  if (other !== undefined)
    throw unsupported('modalities', `answers are text only, instead got ${other.slice(0, 40)}`)
  const { thinking_budget_tokens: given = -1, reasoning_budget_tokens: named = given } = fields
  const { reasoning_budget: budget = named } = fields
  // with a budget of 0 the prompt must not open reasoning, which it may do by itself
  const effort = budget === 0 ? 'none' : fields.reasoning_effort
  const { tools = [], tool_choice: choice } = fields
  const hasTools = tools.length > 0 || choice !== undefined
  const offered = hasTools
    ? offerTools(functionsOfChat(tools, logger), choice, isParallel)
    : undefined
  const prepared = await prepareChat(client, {
    messages: toChatMessages(fields.messages),
    tools: offered?.tools ?? [],
    mayCall: offered?.mayCall,
    strict: offered?.strict,
    template: {
      ...turnOptions(fields),
      variables: { ...(effort && thinkingVariables(effort)), ...fields.chat_template_kwargs },
    },
    mostCalls: isParallel === false ? 1 : undefined,
  })
  const wanted = { asked: askedConstraints(fields), forced: offered?.forced }
  const plan = await planAnswer(client, prepared, wanted)
  const { prompt, form, constraint, marks } = plan
  const shared = await sharedSettings(fields, client)
  const isOfDraw = fields.post_sampling_probs === true
  const settings = {
    ...shared,
    maxTokens: fields.max_completion_tokens ?? shared.maxTokens,
    constraint,
    logprobs: logprobs && !isOfDraw ? top : undefined,
    drawLogprobs: logprobs && isOfDraw ? top : undefined,
    marks,
  }
  return {
    model,
    client,
    request: requestFor(client, prompt, settings, defaults),
    form,
    offered: offered?.byName,
    /** The limit on thinking; undefined: none. */
    limit: budget < 0 ? undefined : { budget, form },
  }
}

/** OpenAI's `finish_reason` of an answer. */
export const finishOf = (reason: FinishReason, hasCalls: boolean): string =>
  hasCalls && reason === 'stop' ? 'tool_calls' : reason
