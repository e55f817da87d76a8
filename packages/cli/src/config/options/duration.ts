const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/**
 * A time such as `500ms`, `30s` or `2m`, in milliseconds.
 *
 * @throws Error that says what was expected
 */
export function duration(text: string): number {
  const match = /^(\d*\.?\d+)(ms|s|m|h)$/.exec(text)
  if (match !== null) return Number(match[1]) * (units[match[2] as string] as number)
  throw new Error('expected a time such as 500ms, 30s or 2m')
}
