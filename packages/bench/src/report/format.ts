import type { Estimate } from '../statistics/confidence.js'

/** Formats a number with its significant digits: 1,234 or 12.3 or 0.123. */
export function formatNumber(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '–'
  const digits =
    Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3
  return value.toLocaleString('en-US', {
    minimumFractionDigits: value === 0 ? 0 : digits,
    maximumFractionDigits: digits,
  })
}

/** An estimate with its interval: `12.3 (11.9–12.7)`. */
export function formatEstimate(value: Estimate | undefined): string {
  if (value === undefined) return '–'
  const middle = formatNumber(value.mean)
  if (value.low === undefined || value.high === undefined) return middle
  return `${middle} (${formatNumber(value.low)} to ${formatNumber(value.high)})`
}
