import { countPrompt } from '../../request/prompt-text.js'
import { bindRoutes, post, streamed } from '../../routes/route.js'
import type { Answer, CallOf, Route } from '../../routes/route.js'
import { anthropicErrors, messages } from './anthropic-answer.js'
import { countSchema, messageSchema, toPrompt } from './messages-request.js'
import type { DefaultOverrides, ProtocolDefaults } from '../../request/build-request.js'
import { defaultsOptions, overridesFrom, withOverrides } from '../../request/protocol-defaults.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { KoaProtocol } from '../../routes/koa-context.js'

/** Anthropic's documented defaults; `max_tokens` is required. */
const anthropicDefaults = Object.freeze({
  maxTokens: Infinity,
  sampling: Object.freeze({ temperature: 1 }),
})

/** Settings of {@link anthropicProtocol}. */
export interface AnthropicProtocolOptions {
  /** Values for omitted fields, in place of Anthropic's own defaults. */
  readonly defaults?: DefaultOverrides
}

/** `POST /v1/messages/count_tokens` */
async function countTokens(call: CallOf<typeof countSchema>): Promise<Answer> {
  const { fields } = call
  const { client } = call.open(fields.model)
  return await countPrompt(client, await toPrompt(fields, client))
}

const routes: readonly Route<ProtocolDefaults>[] = [
  post(
    '/v1/messages',
    'user',
    "Answer a conversation, in the format of Anthropic's Messages API",
    messages,
    streamed(messageSchema),
  ),
  post('/v1/messages/count_tokens', 'user', 'Count the tokens of a conversation', countTokens, {
    body: countSchema,
  }),
]

/** Anthropic's Messages API under `/v1/messages`; see `docs/api-anthropic.md`. */
export function anthropicProtocol(options: AnthropicProtocolOptions = {}): KoaProtocol {
  return {
    name: 'anthropic',
    routes: bindRoutes(routes, withOverrides(anthropicDefaults, options.defaults)),
    errors: anthropicErrors,
  }
}

/** {@link anthropicProtocol} by its name. */
export const anthropic = defineProtocol({
  name: 'anthropic',
  doc: "Anthropic's Messages API under `/v1/messages`.",
  options: defaultsOptions,
  defaults: { '/v1/messages': anthropicDefaults },
  create: (options, services) => anthropicProtocol({ defaults: overridesFrom(options, services) }),
})
