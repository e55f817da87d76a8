/** Formats a size in decimal units: `16.9 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), units.length)
  const value = bytes / 1_000 ** power
  return `${value.toFixed(value < 100 ? 1 : 0)} ${units[power - 1]}`
}
