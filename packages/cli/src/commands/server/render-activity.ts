import { textTable } from '../../process/text-table.js'
import { formatBytes } from '../../models/format-bytes.js'
import type { Activity, ModelActivity, SlotState } from './activity.js'

/**
 * What a server does, as tables.
 *
 * @param before - an earlier look, for rates; without it they are left out
 */
export function renderActivity(now: Activity, before: Activity | undefined): string {
  const head = ['model', 'state', 'size', 'running', 'queued', 'prefill tok/s', 'decode tok/s']
  const models = textTable(head)
  for (const model of now.models) {
    const earlier = before?.models.find(({ name }) => name === model.name)
    const seconds = before === undefined ? 0 : (now.at - before.at) / 1000
    const rate = (kind: 'prefillTokens' | 'decodeTokens') =>
      earlier === undefined ? '–' : ((model[kind] - earlier[kind]) / seconds).toFixed(1)
    const size = model.sizeBytes === null ? '' : formatBytes(model.sizeBytes)
    const counts = [model.running, model.queued]
    const rates = [rate('prefillTokens'), rate('decodeTokens')]
    models.push([model.name, model.state, size, ...counts, ...rates])
  }
  const slots = now.models.filter((model) => model.slots.length > 0).map(slotTable)
  return [`${models.toString()}\n`, ...slots].join('\n')
}

const width = 30

function slotTable({ name, slots }: ModelActivity): string {
  const table = textTable(['slot', 'state', 'tokens', ''])
  for (const slot of slots) {
    table.push([slot.id, slot.state, `${slot.n_past} of ${slot.n_ctx}`, bar(slot)])
  }
  return `slots of ${name}\n${table.toString()}\n`
}

const bar = ({ n_past: used, n_ctx: size }: SlotState): string => {
  const filled = Math.round((Math.min(used, size) / Math.max(1, size)) * width)
  return '█'.repeat(filled) + '·'.repeat(width - filled)
}
