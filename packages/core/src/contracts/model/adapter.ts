/** An adapter (LoRA) to load beside a model: small matrices that are added to its weights. */
export interface AdapterSource {
  /** Letters, digits, `.`, `_` and `-`, at most 64 of them: clients see it as `model:name`. */
  readonly name: string
  /** A GGUF file that was made for this model. */
  readonly path: string
  /** How strongly it is applied where a request does not say; default 1. */
  readonly scale?: number
  /** Its number; default: the first that was never given. */
  readonly id?: number
}

/** An adapter that an engine has. */
export type AdapterInfo = Required<AdapterSource>

/** An adapter that a request is computed with. */
export interface AdapterChoice {
  /** Its name or number. */
  readonly adapter: string | number
  /** 0 is as if it were not named; default: the adapter's own. */
  readonly scale?: number
}

/** An adapter in a backend's memory. */
export interface LoadedAdapter {
  /** The same for the same content only: what was computed with one is never used for another. */
  readonly key: string
  /**
   * Gives its memory back. Called at most once, between steps and during no `embed`, when no sequence is
   * computed with it; those that are loaded at the end go with the backend.
   */
  dispose(): void
}

/** An adapter as a step applies it. */
export interface AppliedAdapter {
  readonly adapter: LoadedAdapter
  /** Any number but 0. */
  readonly scale: number
}

/** The adapters that a request is computed with. */
export interface RequestAdapters {
  /** Those with a scale other than 0, in an order of their own. */
  readonly applied: readonly AppliedAdapter[]
  /** The same for the same adapters with the same scales only; empty without any. */
  readonly key: string
}

/** Loads adapters. */
export interface BackendAdapters {
  /**
   * Reads an adapter. Called between steps; no `embed` is made meanwhile.
   *
   * @throws CllmError `model_unavailable` for a file that cannot be read, `model_invalid` for one that is
   *   no adapter of this model; both name the file and what was expected
   */
  load(path: string): Promise<LoadedAdapter>
}
