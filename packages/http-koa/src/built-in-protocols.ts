import { definePlugin } from '@cllm/core'
import { admin } from './protocols/admin/admin-protocol.js'
import { anthropic } from './protocols/anthropic/anthropic-protocol.js'
import { batches } from './protocols/batches/batches-protocol.js'
import { llamaServer } from './protocols/llama-server/llama-server-protocol.js'
import { metrics } from './protocols/metrics/metrics-protocol.js'
import { models } from './protocols/models/models-protocol.js'
import { native } from './protocols/native/native-protocol.js'
import { ollama } from './protocols/ollama/ollama-protocol.js'
import { openAi } from './protocols/openai/openai-protocol.js'
import { openApi } from './openapi/openapi-protocol.js'
import { usage } from './protocols/usage/usage-protocol.js'
import { web } from './protocols/web/web-protocol.js'
import type { ProtocolDefaults } from './request/protocol-defaults.js'
import type { KoaProtocolDefinition } from './routes/define-protocol.js'

/** The protocols of this package, in the order in which they are served. */
export const builtInProtocols: readonly KoaProtocolDefinition[] = Object.freeze([
  web,
  native,
  anthropic,
  batches,
  openAi,
  ollama,
  llamaServer,
  models,
  openApi,
  admin,
  usage,
  metrics,
])

/** Registers {@link builtInProtocols}; load it before plug-ins that replace one of them. */
export const protocolsPlugin = definePlugin({
  name: 'protocols',
  apiVersion: 1,
  register(host) {
    for (const protocol of builtInProtocols) host.registerProtocol(protocol)
  },
})

/** The defaults of every route that generates; `docs/defaults.md` is made from this table. */
export const protocolDefaults: Readonly<Record<string, ProtocolDefaults>> = Object.freeze(
  Object.assign({}, ...builtInProtocols.map(({ defaults }) => defaults)),
)
