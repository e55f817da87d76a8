import { CllmError, type EngineClient, type GenerateRequest, type Prompt } from '@cllm/core'
import { z } from 'zod'
import { buildRequest } from '../request/build-request.js'
import { boolean, integer, isTokenList } from '../request/fields.js'
import { repeatRequest } from '../request/generation.js'
import type { ProtocolDefaults } from '../request/protocol-defaults.js'
import { onlyConstraint } from '../request/constraint.js'
import { unsupported } from '../request/refuse-unsupported.js'
import { formatConstraint, grammarConstraint } from './openai-constraint.js'
import { sharedFields, sharedSettings } from './openai-fields.js'

type ClientPrompt = string | readonly string[] | readonly number[] | readonly (readonly number[])[]

const expectedPrompt = 'a text, token ids, or up to 128 of them'
const isOne = (value: unknown) => typeof value === 'string' || isTokenList(value)

const prompt = z
  .custom<ClientPrompt>(
    (value) => isOne(value) || (Array.isArray(value) && value.length <= 128 && value.every(isOne)),
    expectedPrompt,
  )
  .meta({
    anyOf: [
      { type: 'string' },
      { type: 'array', items: { type: 'string' } },
      { type: 'array', items: { type: 'integer' } },
      { type: 'array', items: { type: 'array', items: { type: 'integer' } } },
    ],
  })

/** The body of `POST /v1/completions`. */
export const completionsSchema = z.object({
  prompt,
  ...sharedFields,
  best_of: integer(1, 128).optional(),
  echo: boolean.optional(),
  logprobs: integer(0, 5).optional(),
  suffix: z.string('a text').optional(),
})

/** A checked body. */
export type CompletionsFields = z.output<typeof completionsSchema>

/** The requests of a body, `n` for each prompt in turn. */
export async function toCompletionRequests(
  fields: CompletionsFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<GenerateRequest[]> {
  refuse(fields)
  const constraint = await onlyConstraint(client, [
    formatConstraint(fields.response_format),
    grammarConstraint(fields.grammar),
  ])
  const settings = { ...sharedSettings(fields), constraint, logprobs: fields.logprobs }
  const times = fields.n ?? 1
  const prompts = toPrompts(fields.prompt)
  if (prompts.length * times > 128) {
    const message = 'n: expected at most 128 answers to all prompts together'
    throw new CllmError('invalid_request', message, { details: { field: 'n' } })
  }
  return prompts.flatMap((prompt) => repeatRequest(buildRequest(prompt, settings, defaults), times))
}

function toPrompts(prompt: ClientPrompt): Prompt[] {
  if (typeof prompt === 'string') return [{ text: prompt }]
  if (isTokenList(prompt) && prompt.length > 0) return [{ tokens: prompt }]
  if (prompt.length === 0) {
    throw new CllmError('invalid_request', `prompt: expected ${expectedPrompt}, instead got none`, {
      details: { field: 'prompt' },
    })
  }
  return (prompt as readonly (string | readonly number[])[]).map((one) =>
    typeof one === 'string' ? { text: one } : { tokens: one },
  )
}

function refuse(fields: CompletionsFields): void {
  if (fields.logprobs !== undefined && fields.echo === true) {
    throw unsupported('logprobs', 'not together with echo: those of the prompt are not computed')
  }
  if ((fields.suffix ?? '') !== '') throw unsupported('suffix', 'this model cannot fill gaps')
  if (fields.best_of !== undefined && fields.best_of !== (fields.n ?? 1)) {
    throw unsupported('best_of', 'this backend cannot rank answers; expected the same as n')
  }
}
