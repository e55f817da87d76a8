import type { DefaultOverrides } from '../../request/build-request.js'
import { defaultsOptions, overridesFrom } from '../../request/protocol-defaults.js'
import { bindRoutes, type Route, post } from '../../routes/route.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { type AnthropicContext, anthropicDefaults, countTokens, messages } from './messages.js'
import { anthropicErrors } from './anthropic-error.js'
import { countSchema, messageSchema } from './messages-request.js'

/** Settings of {@link anthropicProtocol}. */
export interface AnthropicProtocolOptions {
  /** Values for omitted fields, in place of Anthropic's own defaults. */
  readonly defaults?: DefaultOverrides
}

const routes: readonly Route<AnthropicContext>[] = [
  post(
    '/v1/messages',
    'user',
    "Answer a conversation, in the format of Anthropic's Messages API",
    messages,
    { body: messageSchema, answers: ['application/json', 'text/event-stream'] },
  ),
  post('/v1/messages/count_tokens', 'user', 'Count the tokens of a conversation', countTokens, {
    body: countSchema,
  }),
]

/** Anthropic's Messages API under `/v1/messages`; see `docs/api-anthropic.md`. */
export function anthropicProtocol(options: AnthropicProtocolOptions = {}): KoaProtocol {
  return {
    name: 'anthropic',
    routes: bindRoutes(routes, { overrides: options.defaults ?? {} }),
    errors: anthropicErrors,
  }
}

/** {@link anthropicProtocol} by its name. */
export const anthropic = defineProtocol({
  name: 'anthropic',
  doc: "Anthropic's Messages API under `/v1/messages`.",
  options: defaultsOptions,
  defaults: anthropicDefaults,
  create: (options, services) => anthropicProtocol({ defaults: overridesFrom(options, services) }),
})
