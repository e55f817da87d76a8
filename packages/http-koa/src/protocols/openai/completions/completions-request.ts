import type { EngineClient, GenerateRequest, Prompt } from '@cllm/core'
import { z } from 'zod'
import { boolean, integer } from '../../../fields/fields.js'
import { mixedPrompts, readPrompts } from '../../../fields/mixed-prompts.js'
import type { ProtocolDefaults } from '../../../request/build-request.js'
import { onlyConstraint, requestsFor } from '../../../request/build-request.js'
import { gapPrompt } from '../../../request/prompt-text.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import { anyTokensField, sharedFields, sharedSettings } from '../openai-fields.js'
import { askedConstraints } from '../structured-output.js'

/** The body of `POST /v1/completions`. */
export const completionsSchema = z.object({
  prompt: mixedPrompts(128),
  ...sharedFields,
  // 0 with echo and logprobs: only the prompt is scored
  max_tokens: anyTokensField.optional(),
  best_of: integer(1, 128).optional(),
  echo: boolean.optional(),
  logprobs: integer(0, 5).optional(),
  suffix: z.string('a string').optional(),
})

/** A checked body. */
export type CompletionsFields = z.output<typeof completionsSchema>

/** How many answers to generate per prompt; the best `n` are returned. */
export const answersPerPrompt = ({ n = 1, best_of: bestOf = n }: CompletionsFields): number =>
  bestOf

/** The requests of a body, grouped by prompt. */
export async function toCompletionRequests(
  fields: CompletionsFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<GenerateRequest[]> {
  refuse(fields)
  const constraint = await onlyConstraint(client, askedConstraints(fields))
  const times = answersPerPrompt(fields)
  const ranks = times > (fields.n ?? 1)
  const logprobs = fields.logprobs ?? (ranks ? 0 : undefined)
  const promptLogprobs = isScored(fields) ? fields.logprobs : undefined
  const settings = {
    ...(await sharedSettings(fields, client)),
    ...(isScored(fields) && scoringSettings(fields)),
    constraint,
    logprobs,
    promptLogprobs,
  }
  const prompts = await promptsOf(fields, client)
  if (prompts.length * times > 128) {
    throw expectedField(ranks ? 'best_of' : 'n', 'at most 128 answers to all prompts together')
  }
  return requestsFor(client, prompts, settings, defaults, times)
}

/** Whether the log probabilities of the prompt are wanted, too. */
export const isScored = ({ echo, logprobs }: CompletionsFields): boolean =>
  echo === true && logprobs !== undefined

/**
 * One token at least is generated. Those who score a text ask for one and cut it off, as
 * lm-evaluation-harness does: so it must be there, even where the model would end.
 */
const scoringSettings = ({ max_tokens: maxTokens }: CompletionsFields) =>
  maxTokens === undefined || maxTokens > 1 ? {} : { maxTokens: 1, ignoreEos: true }

function refuse(fields: CompletionsFields): void {
  if (fields.max_tokens === 0 && !isScored(fields)) {
    throw expectedField('max_tokens', '1 or more; 0 only together with echo and logprobs')
  }
  const { n = 1, best_of: bestOf = n } = fields
  if (bestOf < n) throw expectedField('best_of', `at least n, which is ${n}`)
  if (bestOf > n && fields.stream === true) {
    throw unsupported(
      'best_of',
      'not together with stream: the best answers are known only at the end',
    )
  }
}

/** With a suffix, each prompt is what comes before the gap. */
async function promptsOf(fields: CompletionsFields, client: EngineClient): Promise<Prompt[]> {
  const { suffix = '' } = fields
  const prompts = await readPrompts(client, fields.prompt)
  if (suffix === '') return prompts
  return await Promise.all(prompts.map((prompt) => gapPrompt(client, prompt, suffix)))
}
