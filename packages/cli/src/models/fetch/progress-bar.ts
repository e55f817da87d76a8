import type { Output } from '../../commands/command.js'
import { meterOn, formatBytes } from '../../process/terminal.js'
import type { FetchProgress } from './fetch-once.js'
import { resolveModel, type ResolvedModel, type ResolveModelOptions } from '../resolve-model.js'

/**
 * Shows the progress of fetching a model: a bar if `output` is a terminal, otherwise a line for every 10 %. `close`
 * restores the terminal, also during a download.
 */
export function progressDisplay(output: Output) {
  const format = '{bar} {percentage} % | {received} of {size}'
  const line = (percent: number, total: number) => `${percent} % of ${formatBytes(total)}`
  const meter = meterOn(output, format, 10, line)
  const show = (progress: FetchProgress): void => {
    if (progress.kind === 'bytes') {
      const { totalBytes: total, receivedBytes } = progress
      const done = Math.min(receivedBytes, total)
      meter.update(done, total, { received: formatBytes(done), size: formatBytes(total) })
    } else {
      meter.stop()
      output.write(`${textOf(progress)}\n`)
    }
  }
  return { show, close: meter.stop }
}

function textOf(progress: Exclude<FetchProgress, { readonly kind: 'bytes' }>): string {
  switch (progress.kind) {
    case 'waiting':
      return `another process is fetching ${progress.model}: waiting for it`
    case 'start': {
      const { model, source, totalBytes } = progress
      const size = totalBytes === undefined ? '' : ` (${formatBytes(totalBytes)})`
      return `fetching ${model}${size} from ${source}`
    }
    case 'checking':
      return 'checking the file'
    case 'unchecked':
      return `${progress.model} has no known checksum: the file was not checked`
    case 'failed':
      return `failed from ${progress.source}: ${progress.reason}`
    case 'done':
      return `${progress.model} is at ${progress.path}`
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
