import type { ModelHost } from '@cllm/bench'

/** Where a command writes text. */
export interface Output {
  /** Writes the text unchanged. */
  write(text: string): unknown
  /** True for a terminal, which can show a progress bar. */
  readonly isTTY?: boolean | undefined
}

/** Where a command reads what is typed or piped. */
export type Input = NodeJS.ReadableStream & {
  /** True for a terminal, where somebody types. */
  readonly isTTY?: boolean | undefined
}

/** A command's access to its process; tests pass their own. */
export interface CommandIo {
  readonly stdout: Output
  readonly stderr: Output
  /** Default: nothing. */
  readonly stdin?: Input
  readonly env: NodeJS.ProcessEnv
  /** Aborted when the command must stop, such as by Ctrl-C. */
  readonly signal: AbortSignal
}

/** A command ended because another process failed, which has said why on standard error. */
export class CommandFailed extends Error {}

/** Runs a command; `argv` excludes the command's name. Returns the exit code. */
export type RunCommand = (argv: readonly string[], io: CommandIo) => Promise<number>

/** Opens the host of models that a command measures with the policies of plugins. */
export type HostWith = (plugins: readonly string[]) => Promise<ModelHost>

/** A command that measures a model of a host. */
export type HostedCommand = (
  argv: readonly string[],
  io: CommandIo,
  host: ModelHost,
) => Promise<number>

/** Writes what a command found, as JSON if that is asked for. Returns the command's exit code. */
export function tell(io: CommandIo, asJson: boolean, found: unknown, text: () => string): number {
  io.stdout.write(asJson ? `${JSON.stringify(found, undefined, 2)}\n` : text())
  return 0
}
