import { errorsElsewhere } from '../../errors/error-body.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import { bindRoutes, type Route, post, streamed } from '../../routes/route.js'
import type { DefaultOverrides } from '../../request/build-request.js'
import { defaultsOptions, overridesFrom, withOverrides } from '../../request/protocol-defaults.js'
import { completion } from './completion.js'
import {
  completionSchema,
  type LlamaServerContext,
  llamaServerDefaults,
  llamaServerErrorBody,
  llamaServerErrorSchema,
} from './completion-request.js'
import { infill, infillSchema } from './infill.js'
import { boolean } from '../../fields/fields.js'
import { stateRoutes } from './state-routes.js'
import { textRoutes } from './text-routes.js'

/** Settings of {@link llamaServerProtocol}. */
export interface LlamaServerProtocolOptions {
  /** Values for omitted fields, in place of llama-server's own defaults. */
  readonly defaults?: DefaultOverrides
  /** Whether `GET /slots` shows what the slots do; default true. */
  readonly slots?: boolean
}

const optionsSchema = defaultsOptions.extend({ slots: boolean.optional() })

const routes: readonly Route<LlamaServerContext>[] = [
  post('/completion', 'user', 'Continue a text', completion, streamed(completionSchema)),
  post('/completions', 'user', 'The same as /completion', completion, streamed(completionSchema)),
  post(
    '/infill',
    'user',
    'Fill in the text between a prefix and a suffix',
    infill,
    streamed(infillSchema),
  ),
  ...textRoutes,
  ...stateRoutes,
]

/** The API of llama.cpp's llama-server, besides its OpenAI part; see `docs/api-llama-server.md`. */
export function llamaServerProtocol(options: LlamaServerProtocolOptions = {}): KoaProtocol {
  return {
    name: 'llama-server',
    routes: bindRoutes(routes, {
      defaults: withOverrides(llamaServerDefaults, options.defaults),
      showsSlots: options.slots ?? true,
    }),
    errors: errorsElsewhere('llama-server-error', llamaServerErrorSchema, llamaServerErrorBody),
  }
}

/** {@link llamaServerProtocol} by its name. */
export const llamaServer = defineProtocol({
  name: 'llama-server',
  doc: "The API of llama.cpp's llama-server, besides its OpenAI part.",
  options: optionsSchema,
  defaults: { '/completion': llamaServerDefaults },
  create: ({ slots = true, ...options }, services) =>
    llamaServerProtocol({ slots, defaults: overridesFrom(options, services) }),
})
