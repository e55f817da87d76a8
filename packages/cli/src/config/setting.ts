/** A value that someone gave an option, and where. */
export interface Setting {
  /** The option, such as `server.port`. */
  readonly path: string
  readonly value: unknown
  /** Where it was given: `cllm.yaml:3`, `CLLM_PORT`, `--port`. */
  readonly source: string
  /** The same as a message begins with it: `cllm.yaml:3: server.port`, `CLLM_PORT`, `--port`. */
  readonly label: string
}

/** What one place (the file, the environment, the flags) has to say. */
export interface Layer {
  readonly settings: readonly Setting[]
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
  /** Whether it is written for the original server. */
  readonly isOriginal?: boolean
}
