import type { EngineDirectory } from '@cllm/core'
import type { ModelStore } from '../../engines/model-store.js'
import type { UnknownFields } from '../../fields/unknown-fields.js'

/** What the handlers of the models protocol share. */
export interface ModelsContext {
  readonly directory: EngineDirectory
  readonly unknownFields: UnknownFields
  readonly store: ModelStore | undefined
}
