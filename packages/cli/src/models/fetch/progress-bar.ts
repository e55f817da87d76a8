import type { SingleBar } from 'cli-progress'
import type { Output } from '../../commands/command-io.js'
import { terminalBar } from '../../process/terminal-bar.js'
import type { FetchProgress } from './fetch-progress.js'
import { formatBytes } from '../format-bytes.js'

/** Shows the progress of fetching a model. */
export interface ProgressDisplay {
  readonly show: (progress: FetchProgress) => void
  /** Restores the terminal, also during a download. */
  readonly close: () => void
}

/** A progress bar if `output` is a terminal, otherwise a line for every 10 %. */
export function progressDisplay(output: Output): ProgressDisplay {
  const meter = output.isTTY ? barMeter(output) : lineMeter(output)
  const line = (text: string) => output.write(`${text}\n`)
  return {
    close: meter.stop,
    show(progress) {
      if (progress.kind === 'bytes') {
        meter.update(Math.min(progress.receivedBytes, progress.totalBytes), progress.totalBytes)
        return
      }
      meter.stop()
      switch (progress.kind) {
        case 'waiting':
          line(`another process is fetching ${progress.model}: waiting for it`)
          break
        case 'start': {
          const { model, source, totalBytes } = progress
          const size = totalBytes === undefined ? '' : ` (${formatBytes(totalBytes)})`
          line(`fetching ${model}${size} from ${source}`)
          break
        }
        case 'checking':
          line('checking the file')
          break
        case 'unchecked':
          line(`${progress.model} has no known checksum: the file was not checked`)
          break
        case 'failed':
          line(`failed from ${progress.source}: ${progress.reason}`)
          break
        case 'done':
          line(`${progress.model} is at ${progress.path}`)
          break
      }
    },
  }
}

interface Meter {
  readonly update: (received: number, total: number) => void
  readonly stop: () => void
}

function barMeter(output: Output): Meter {
  let bar: SingleBar | undefined
  const sizes = (received: number, total: number) => ({
    received: formatBytes(received),
    size: formatBytes(total),
  })
  return {
    update(received, total) {
      if (total === 0) return
      if (bar === undefined) {
        bar = terminalBar(output, '{bar} {percentage} % | {received} of {size}')
        bar.start(total, received, sizes(received, total))
      }
      bar.update(received, sizes(received, total))
    },
    stop() {
      bar?.stop()
      bar = undefined
    },
  }
}

function lineMeter(output: Output): Meter {
  let tenths = 0
  return {
    update(received, total) {
      const now = total === 0 ? 0 : Math.floor((received / total) * 10)
      if (now <= tenths) return
      tenths = now
      output.write(`${tenths * 10} % of ${formatBytes(total)}\n`)
    },
    stop() {
      tenths = 0
    },
  }
}
