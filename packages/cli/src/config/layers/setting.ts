/** A value given for an option, and where it was given. */
export interface Setting {
  /** The option, such as `server.port`. */
  readonly path: string
  readonly value: unknown
  /** Where it was given: `cllm.yaml:3`, `CLLM_PORT`, `--port`. */
  readonly source: string
  /** The same, as messages start with it: `cllm.yaml:3: server.port`, `CLLM_PORT`, `--port`. */
  readonly label: string
}

/** The settings from one place: the file, the environment or the flags. */
export interface Layer {
  readonly settings: readonly Setting[]
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
  /** Whether the file is written for the original server. */
  readonly isOriginal?: boolean
}
