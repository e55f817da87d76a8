import type { BuildInfo } from '@cllm/backend-llamacpp/native-build'
import { textTable } from '../../process/text-table.js'

/** Tokens per second of each library that was measured, and which was the fastest. */
export function figuresTable({ fastest, measured }: BuildInfo): string {
  const head = ['tokens/s', 'prefill', '1 sequence', '8 sequences', '16 sequences', '']
  const table = textTable(head)
  for (const [name, { prefill, decode }] of Object.entries(measured.figures)) {
    const rates = [prefill, ...decode].map((rate) => rate.toFixed(1))
    table.push([name, ...rates, name === fastest ? 'fastest' : ''])
  }
  const threads = measured.threads === 1 ? '1 thread' : `${measured.threads} threads`
  return `${table.toString()}\nmeasured on ${measured.model}, ${threads}\n`
}
