import type { ModelStore } from '../../engines/model-store.js'

/** What the handlers of the models protocol share. */
export interface ModelsContext {
  readonly store: ModelStore | undefined
  /** The calls of `POST /models/load` that wait. */
  readonly loads: Set<WaitingLoad>
}

/** A call that waits until a model is loaded. */
export interface WaitingLoad {
  /** The model's name. */
  readonly name: string
  readonly ending: AbortController
}
