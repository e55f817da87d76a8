import type { EngineDirectory } from '@cllm/core'
import { statusElsewhere } from '../../errors/error-body.js'
import { UnknownFields } from '../../fields/unknown-fields.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import { mountRoutes } from '../../routes/mount-routes.js'
import { anthropicDefaults } from './anthropic-defaults.js'
import { anthropicErrorBody, anthropicErrorSchema } from './anthropic-error.js'
import { type AnthropicContext, countTokens, messages } from './messages.js'
import { countSchema, messageSchema } from './messages-request.js'

/** Settings of {@link anthropicProtocol}. */
export interface AnthropicProtocolOptions {
  /** Values for omitted fields, in place of Anthropic's own defaults. */
  readonly defaults?: DefaultOverrides
}

const routes: readonly HandledRoute<AnthropicContext>[] = [
  {
    method: 'post',
    path: '/v1/messages',
    summary: "Answer a conversation, in the format of Anthropic's Messages API",
    body: messageSchema,
    answers: ['application/json', 'text/event-stream'],
    handle: messages,
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    summary: 'Count the tokens of a conversation',
    body: countSchema,
    handle: countTokens,
  },
]

/** Anthropic's Messages API under `/v1/messages`; see `docs/api-anthropic.md`. */
export function anthropicProtocol(options: AnthropicProtocolOptions = {}): KoaProtocol {
  return {
    name: 'anthropic',
    routes,
    errors: {
      covers: (path) => /^\/v1\/messages(\/|$)/.test(path),
      status: statusElsewhere,
      body: anthropicErrorBody,
      schema: anthropicErrorSchema,
    },
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        overrides: options.defaults ?? {},
        unknownFields: new UnknownFields(),
      })
    },
  }
}

/** {@link anthropicProtocol} by its name. */
export const anthropic = defineProtocol({
  name: 'anthropic',
  doc: "Anthropic's Messages API under `/v1/messages`.",
  options: defaultsOptions,
  defaults: anthropicDefaults,
  create: (options, { defaults }) =>
    anthropicProtocol({ defaults: overridesFrom(options, defaults) }),
})
