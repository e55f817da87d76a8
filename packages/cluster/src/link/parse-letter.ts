import type { WorkerOrder } from '../messages.js'
import type { LinkLetter } from './link.js'

/** What a mailbox may hold; undefined for anything else, which no process of a cluster has written. */
export function parseLetter(text: string): LinkLetter | WorkerOrder | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const { l, n, b, order, migrate } = value as Record<string, unknown>
  if (order === 'drain') return { order, migrate: migrate === true }
  if (typeof l !== 'string' || !Number.isSafeInteger(n) || Number(n) < 0) return undefined
  // Each message is an object with a type.
  if (b !== undefined && !isMessage(b)) return undefined
  return value as LinkLetter
}

function isMessage(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
  )
}
