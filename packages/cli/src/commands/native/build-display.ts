import type { SingleBar } from 'cli-progress'
import type { BuildProgress } from '@cllm/backend-llamacpp/native-build'
import { terminalBar } from '../../process/terminal-bar.js'
import type { Output } from '../command-io.js'

/** Shows what a build is doing. */
export interface BuildDisplay {
  readonly show: (progress: BuildProgress) => void
  /** Restores the terminal. */
  readonly close: () => void
}

/** One line that changes if `output` is a terminal, otherwise a line for every stage and 20 %. */
export function buildDisplay(output: Output): BuildDisplay {
  return output.isTTY ? barDisplay(output) : lineDisplay(output)
}

function barDisplay(output: Output): BuildDisplay {
  let bar: SingleBar | undefined
  const close = () => {
    bar?.stop()
    bar = undefined
  }
  return {
    close,
    show(progress) {
      if (progress.kind === 'share') {
        bar?.update(Math.round(100 * progress.done))
        return
      }
      close()
      bar = terminalBar(output, '{bar} {percentage} % | {stage}')
      bar.start(100, 0, { stage: progress.text })
    },
  }
}

function lineDisplay(output: Output): BuildDisplay {
  let fifths = 0
  return {
    close: () => {},
    show(progress) {
      if (progress.kind === 'stage') {
        fifths = 0
        output.write(`${progress.text}\n`)
        return
      }
      const now = Math.floor(progress.done * 5)
      if (now <= fifths) return
      fifths = now
      output.write(`${20 * now} %\n`)
    },
  }
}
