/** Where a command writes text. */
export interface Output {
  /** Writes it as it is. */
  write(text: string): unknown
  /** True for a terminal, which can show a progress bar. */
  readonly isTTY?: boolean | undefined
}

/** All that a command knows of the process it runs in; tests give their own. */
export interface CommandIo {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: NodeJS.ProcessEnv
  /** Aborted when the command is to stop, as by Ctrl-C. */
  readonly signal: AbortSignal
}
