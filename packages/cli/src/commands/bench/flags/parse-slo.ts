import type { Slo } from '@cllm/bench'
import { duration, word } from '../../flags/values.js'

const figure = word('ttft', 'itl', 'tpot', 'e2e')

/** Reads `ttft:500ms,itl:100ms`. */
export function parseSlo(text: string): Slo {
  const limits = text.split(',').map((part) => {
    const [name = '', limit = ''] = part.split(':')
    return [figure(name), duration(limit)]
  })
  return Object.fromEntries(limits) as Slo
}
