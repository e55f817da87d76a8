import { createRequire } from 'node:module'
import type * as CliProgress from 'cli-progress'
import type { Output } from '../commands/command-io.js'

const load = createRequire(import.meta.url)

/** A progress bar on a terminal, which `stop` restores. Its module is loaded for terminals alone. */
export function terminalBar(
  output: Output,
  format: string,
  options: CliProgress.Options = {},
): CliProgress.SingleBar {
  const { Presets, SingleBar } = load('cli-progress') as typeof CliProgress
  const stream = output as unknown as NodeJS.WritableStream
  // gracefulExit would listen for signals
  const own = { format, stream, hideCursor: true, gracefulExit: false, ...options }
  return new SingleBar(own, Presets.shades_classic)
}
