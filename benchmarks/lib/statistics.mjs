/** The value that a share of the others is not above. */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN
}

export const median = (values) => quantile(values, 0.5)

export const sum = (values) => values.reduce((total, value) => total + value, 0)

/** A Markdown table; the first row is the heading. */
export function table(rows) {
  const [heading, ...others] = rows
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(heading), line(heading.map(() => '---')), ...others.map(line)].join('\n')
}
