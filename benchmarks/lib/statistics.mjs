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
  return [line(heading), `|${'---|'.repeat(heading.length)}`, ...others.map(line)].join('\n')
}

/** One figure of two servers, round by round; neighbours in time, so that a slow spell of the machine weighs on both. */
export const pairsOf = (ours, others, figure) =>
  ours.map((result, round) => [result[figure], others[round][figure]])

export const ratiosOf = (pairs) => pairs.map(([ours, other]) => ours / other)

export const medianRatio = (pairs) => median(ratiosOf(pairs)).toFixed(3)
