/** How a program ended. */
export interface ProgramResult {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  /** The end of what it wrote to standard output and standard error. */
  readonly output: string
}

/** How a program is run. */
export interface ProgramOptions {
  /** Ends the program and all that it started; the promise then rejects with its reason. */
  readonly signal: AbortSignal
  /** Called with each line that it writes. */
  readonly onLine?: (line: string) => void
}

/** Runs a program to its end. Rejects with an error of code `ENOENT` when there is no such program. */
export type RunProgram = (
  program: string,
  args: readonly string[],
  options: ProgramOptions,
) => Promise<ProgramResult>
