import type { ProtocolDefaults } from '../../request/protocol-defaults.js'

/** The native API's documented defaults; the rest is the engine's. */
export const nativeDefaults: ProtocolDefaults = Object.freeze({
  maxTokens: 100,
  sampling: Object.freeze({ temperature: 0.7, topP: 0.9 }),
})
