import { z } from 'zod'

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}

// no two parts can match the same digits, so a failed match does not backtrack
const pattern = /^([+-]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+)$/

/**
 * Milliseconds of a time to live in Ollama's form: a number of seconds, or a duration such as `5m` or
 * `1h30m`. A negative value means forever (Infinity). Undefined for anything else.
 */
export function parseKeepAlive(value: unknown): number | undefined {
  if (typeof value === 'number') return fromSeconds(value)
  if (typeof value !== 'string' || value.trim() === '') return undefined
  const text = value.trim()
  if (Number.isFinite(Number(text))) return fromSeconds(Number(text))
  const [, sign, parts] = pattern.exec(text) ?? []
  if (parts === undefined) return undefined
  let sum = 0
  for (const [, count, unit] of parts.matchAll(/([\d.]+)([a-zµ]+)/g)) {
    sum += Number(count) * (units[unit ?? ''] ?? 0)
  }
  return sign === '-' && sum > 0 ? Infinity : sum
}

function fromSeconds(seconds: number): number | undefined {
  if (Number.isNaN(seconds)) return undefined
  return seconds < 0 ? Infinity : seconds * 1000
}

const expected = 'a number of seconds or a duration such as 5m'

/** The field `keep_alive`: how long a model stays loaded after its last use, as milliseconds. */
export const keepAliveField = z
  .custom<string | number>((value) => parseKeepAlive(value) !== undefined, expected)
  .meta({ anyOf: [{ type: 'string' }, { type: 'number' }] })
  .transform((value) => parseKeepAlive(value))
  .optional()
