import { Presets, SingleBar } from 'cli-progress'
import type { Output } from '../../command-io.js'

/** Shows the progress of a run. */
export interface Progress {
  readonly step: () => void
  readonly stop: () => void
}

/** A progress bar where `output` is a terminal, otherwise nothing. */
export function progressBar(output: Output, name: string, total: number | undefined): Progress {
  if (output.isTTY !== true) return { step: () => undefined, stop: () => undefined }
  const format = total === undefined ? `${name} {value}` : `${name} {bar} {value} of {total}`
  const bar = new SingleBar(
    {
      format,
      stream: output as unknown as NodeJS.WritableStream,
      hideCursor: true,
      clearOnComplete: true,
      gracefulExit: false, // true would add signal listeners; `stop` restores the terminal
    },
    Presets.shades_classic,
  )
  bar.start(total ?? 0, 0)
  return { step: () => bar.increment(), stop: () => bar.stop() }
}
