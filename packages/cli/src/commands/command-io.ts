import type { CommandIo } from '@cllm/bench'

export type { CommandIo, Output } from '@cllm/bench'

/** What the dispatcher calls: `argv` without the command's own name; the result is the exit code. */
export type RunCommand = (argv: string[], io: CommandIo) => Promise<number>
