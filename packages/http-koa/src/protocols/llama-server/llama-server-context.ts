import type { DefaultOverrides } from '../../request/build-request.js'

/** What the handlers of llama-server's API share. */
export interface LlamaServerContext {
  readonly overrides: DefaultOverrides
  /** Whether `GET /slots` shows them. */
  readonly showsSlots: boolean
}

const sampling = Object.freeze({ temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 })

/** llama-server's documented defaults, by route; penalties are off. */
export const llamaServerDefaults = Object.freeze({
  '/completion': { maxTokens: Infinity, sampling },
})
