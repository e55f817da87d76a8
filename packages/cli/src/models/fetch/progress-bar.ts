import type { Output } from '../../commands/command-io.js'
import { meterOn } from '../../process/terminal-bar.js'
import type { FetchProgress } from './fetch-progress.js'
import { formatBytes } from '../format-bytes.js'
import { resolveModel, type ResolvedModel, type ResolveModelOptions } from '../resolve-model.js'

/** Shows the progress of fetching a model. */
export interface ProgressDisplay {
  readonly show: (progress: FetchProgress) => void
  /** Restores the terminal, also during a download. */
  readonly close: () => void
}

/** A progress bar if `output` is a terminal, otherwise a line for every 10 %. */
export function progressDisplay(output: Output): ProgressDisplay {
  const format = '{bar} {percentage} % | {received} of {size}'
  const meter = meterOn(
    output,
    format,
    10,
    (percent, total) => `${percent} % of ${formatBytes(total)}`,
  )
  const line = (text: string) => output.write(`${text}\n`)
  return {
    close: meter.stop,
    show(progress) {
      if (progress.kind === 'bytes') {
        const total = progress.totalBytes
        const done = Math.min(progress.receivedBytes, total)
        meter.update(done, total, { received: formatBytes(done), size: formatBytes(total) })
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

/**
 * Calls {@link resolveModel} and shows its progress on `output`.
 *
 * @throws the errors of `resolveModel`
 */
export async function pullModel(
  spec: string,
  output: Output,
  options: Omit<ResolveModelOptions, 'onProgress'> = {},
): Promise<ResolvedModel> {
  const { show, close } = progressDisplay(output)
  try {
    return await resolveModel(spec, { ...options, onProgress: show })
  } finally {
    close()
  }
}
