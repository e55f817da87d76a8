import type { BuildProgress } from '@cllm/backend-llamacpp/native-build'
import { meterOn } from '../../process/terminal-bar.js'
import type { Output } from '../command-io.js'

/** Shows what a build is doing. */
export interface BuildDisplay {
  readonly show: (progress: BuildProgress) => void
  /** Restores the terminal. */
  readonly close: () => void
}

/** One line that changes if `output` is a terminal, otherwise a line for every stage and 20 %. */
export function buildDisplay(output: Output): BuildDisplay {
  const meter = meterOn(output, '{bar} {percentage} % | {stage}', 5, (percent) => `${percent} %`)
  return {
    close: meter.stop,
    show(progress) {
      if (progress.kind === 'share') return meter.update(Math.round(100 * progress.done), 100)
      meter.stop()
      if (output.isTTY === true) meter.update(0, 100, { stage: progress.text })
      else output.write(`${progress.text}\n`)
    },
  }
}
