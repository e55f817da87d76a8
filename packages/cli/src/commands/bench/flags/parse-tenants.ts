import type { TenantShare } from '@cllm/bench'
import { integer, positive } from '../../flags/values.js'

/** Reads `3` (tenants of equal weight) or `big=3,small=1`. */
export function parseTenants(text: string): TenantShare[] {
  if (!text.includes('=')) {
    const count = integer(1, 1000)(text)
    return Array.from({ length: count }, (_, index) => ({ name: `tenant-${index + 1}`, weight: 1 }))
  }
  return text.split(',').map((part) => {
    const [name = '', weight = ''] = part.split('=')
    if (name === '') throw new Error('expected a number of tenants or name=weight pairs')
    return { name, weight: positive(weight) }
  })
}
