/** Formats milliseconds: `38 ms`, `1.2 s`, `2 min`; `–` if they are not known. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
  return ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`
}

/** Formats bytes in decimal units, as model files are listed. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let [value, unit] = [bytes, 0]
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`
}

/** A number of things: `1 token`, `1,200 tokens`. */
export const counted = (count: number, thing: string): string =>
  `${count.toLocaleString('en-US')} ${thing}${count === 1 ? '' : 's'}`

/** Formats a share as percent. */
export const formatShare = (share: number): string => `${Math.round(100 * share)} %`

/** The value of a JSON text; `other` if it is not valid JSON. */
export function parsedJson(text: string, other?: unknown): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return other
  }
}
