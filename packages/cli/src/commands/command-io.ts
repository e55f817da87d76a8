/** Where a command writes text. */
export interface Output {
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

/** What the dispatcher calls: `argv` without the command's own name; the result is the exit code. */
export type RunCommand = (argv: string[], io: CommandIo) => Promise<number>
