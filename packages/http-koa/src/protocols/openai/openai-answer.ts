import { requestId } from '@cllm/host'
import type { ToolCall } from '../../chat/answer/answer-part.js'
import type { Call } from '../../routes/route.js'
import type { LogLevelControl } from '../../routes/define-protocol.js'
import type { McpServers } from '../mcp/mcp-servers.js'
import type { EndEvent } from '../../request/generation.js'
import { expectedField } from '../../request/refusals.js'
import { timingsOf } from '../../request/usage.js'
import { type FunctionsByName, customInput } from './openai-tools.js'
import type { KeptItems } from './responses/kept-items.js'
import type { RecentItems } from './responses/response-items.js'
import type { ProtocolDefaults } from '../../request/build-request.js'
import type { CllmError, PromptTokenLogprobs } from '@cllm/core'
import { z } from 'zod'
import {
  errorField,
  errorMessage,
  errorsElsewhere,
  statusElsewhere,
  tooLong,
} from '../../errors/error-body.js'

/** A tool call in an answer; a call of a free-form tool has its input as a text. */
export function toolCallOf(
  { random }: Pick<Call, 'random'>,
  call: ToolCall,
  offered: FunctionsByName | undefined,
): object {
  const id = `call_${requestId(random)}`
  if (offered?.get(call.name)?.isCustom !== true) return { id, type: 'function', function: call }
  const custom = { name: call.name, input: customInput(call.arguments) }
  return { id, type: 'custom', custom }
}

/**
 * Writes the chunks of a stream.
 *
 * @param head - the members that all chunks have
 * @param includeUsage - whether the last chunk has the usage, and no choice
 */
export function chunkWriter(head: object, includeUsage: boolean, write: (text: string) => void) {
  const opening = `data: ${JSON.stringify(head).slice(0, -1)},"choices":`
  const closing = `${includeUsage ? ',"usage":null' : ''}}\n\n`
  return {
    /** Writes choices, given as JSON, with further members of the chunk. */
    send: (choices: string, more = '') => write(`${opening}[${choices}]${more}${closing}`),
    /** Writes the usage of all answers with the timings of one, if asked for, and `[DONE]`. */
    end: (usage: object, answer: EndEvent) => {
      if (includeUsage) {
        const timings = JSON.stringify(timingsOf(answer))
        write(`${opening}[],"usage":${JSON.stringify(usage)},"timings":${timings}}\n\n`)
      }
      write('data: [DONE]\n\n')
    },
    fail: (error: CllmError) => write(`data: ${JSON.stringify(openAiErrorBody(error))}\n\n`),
  }
}

/** What the handlers of OpenAI's API share. */
export interface OpenAiContext {
  /** The values of fields that requests leave out, by route. */
  readonly defaults: Readonly<Record<keyof typeof openAiDefaults, ProtocolDefaults>>
  /** Seconds since the epoch, shown as the date of every model. */
  readonly started: number
  /** The store of responses and conversations; undefined: there is none. */
  readonly kept: KeptItems | undefined
  /** The items of recent answers. */
  readonly recent: RecentItems
  /** The configured MCP servers; undefined: none. */
  readonly mcp: McpServers | undefined
  /** The log level; below `info`, answers to chats show the prompt by default. */
  readonly log: LogLevelControl | undefined
}

/** Seconds since the epoch. */
export const secondsNow = ({ clock }: Pick<Call, 'clock'>): number =>
  Math.floor(clock.wall() / 1000)

/** The fingerprint of engines without one, and the build number, in llama-server's form; clients only compare it. */
export const unknownFingerprint = 'b0-cllm'

const sampling = Object.freeze({ temperature: 1 })

/** OpenAI's documented defaults by route, and Mistral's for fill-in-the-middle; penalties are off. */
export const openAiDefaults = Object.freeze({
  '/v1/chat/completions': { maxTokens: Infinity, sampling },
  '/v1/responses': { maxTokens: Infinity, sampling },
  '/v1/completions': { maxTokens: 16, sampling },
  '/v1/audio/transcriptions': { maxTokens: Infinity, sampling: { temperature: 0 } },
  '/v1/fim/completions': { maxTokens: Infinity, sampling: { temperature: 0.3 } },
})

/** The schema of OpenAI's errors. */
export const openAiErrorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
    n_prompt_tokens: z.int().optional(),
    n_ctx: z.int().optional(),
  }),
})

/** OpenAI's own codes, which clients look for. */
const codes: Readonly<Record<string, string>> = {
  prompt_too_long: 'context_length_exceeded',
  queue_full: 'rate_limit_exceeded',
  wait_too_long: 'rate_limit_exceeded',
  rate_limited: 'rate_limit_exceeded',
  unauthenticated: 'invalid_api_key',
}

function codeOf({ code, details }: CllmError): string {
  // clients wait for a limit per minute; without this code they would also wait for one per month
  if (code === 'rate_limited' && 'month' in details) return 'insufficient_quota'
  return codes[code] ?? code
}

/** The body of a failure's answer, also sent as an event when a stream fails. */
export function openAiErrorBody(error: CllmError): z.output<typeof openAiErrorSchema> {
  const status = statusElsewhere(error)
  return {
    error: {
      message: errorMessage(error),
      type: types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      param: errorField(error) ?? null,
      code: codeOf(error),
      ...tooLong(error),
    },
  }
}

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
  503: 'unavailable_error',
}

/** The format of OpenAI's errors. */
export const openAiErrors = errorsElsewhere('openai-error', openAiErrorSchema, openAiErrorBody)

/**
 * Log probabilities in the form of text completions.
 *
 * @param position - the number of characters (code points) of the answer before the tokens; advanced behind them
 */
export function textLogprobs(
  tokens: readonly PromptTokenLogprobs[],
  position = { characters: 0 },
): object {
  const text_offset = tokens.map(({ text }) => {
    const { characters } = position
    position.characters += Array.from(text).length
    return characters
  })
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top, logprob }) =>
      logprob === null
        ? null
        : // of two tokens with the same text the likelier one counts
          Object.fromEntries(top.toReversed().map(({ text, logprob }) => [text, logprob])),
    ),
    text_offset,
  }
}

/**
 * The index in a list of the element with an id.
 *
 * @param field - the field that contained the id
 * @throws `invalid_request` if there is none
 */
export function placeOf(
  all: readonly { readonly id: string }[],
  id: string,
  field: string,
  shown = id,
): number {
  const index = all.findIndex((one) => one.id === id)
  if (index !== -1) return index
  throw expectedField(field, `an id of this list, got "${shown.slice(0, 64)}"`)
}

/** A part of a list, in Anthropic's and OpenAI's common format. */
export const partOf = <T extends { readonly id: string }>(
  data: readonly T[],
  has_more: boolean,
) => ({ data, has_more, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null })

/**
 * A page of a list in OpenAI's format.
 *
 * @throws `invalid_request` if nothing has the id `after`: a client that got the first page again would never end
 */
export function pageOf<T extends { readonly id: string }>(
  all: readonly T[],
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
) {
  const from = after === undefined ? 0 : placeOf(all, after, 'after') + 1
  return {
    object: 'list',
    ...partOf(all.slice(from, from + limit), from + limit < all.length),
  }
}
