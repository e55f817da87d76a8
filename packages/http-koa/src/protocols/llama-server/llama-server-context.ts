import type { EngineDirectory } from '@cllm/core'
import type { UnknownFields } from '../../fields/unknown-fields.js'
import type { DefaultOverrides } from '../../request/protocol-defaults.js'

/** What the handlers of llama-server's API share. */
export interface LlamaServerContext {
  readonly directory: EngineDirectory
  readonly overrides: DefaultOverrides
  readonly unknownFields: UnknownFields
  /** Whether `GET /slots` shows them. */
  readonly showsSlots: boolean
}
