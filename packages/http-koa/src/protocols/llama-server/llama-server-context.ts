import type { DefaultOverrides } from '../../request/protocol-defaults.js'

/** What the handlers of llama-server's API share. */
export interface LlamaServerContext {
  readonly overrides: DefaultOverrides
  /** Whether `GET /slots` shows them. */
  readonly showsSlots: boolean
}
