/** What each digit of a number may be: from the first to the last one. */
type DigitPattern = readonly (readonly [first: number, last: number])[]

const ten = 10n

/**
 * The numbers from `min` to `max`, none negative, as GBNF.
 * @param decimals - number of digits after the decimal point
 */
export function digitRanges(min: bigint, max: bigint, decimals = 0): string {
  const patterns: DigitPattern[] = []
  const shortest = Math.max(String(min).length, decimals + 1)
  for (let length = shortest; length <= Math.max(String(max).length, decimals + 1); length++) {
    const least = length === decimals + 1 ? 0n : ten ** BigInt(length - 1)
    const most = ten ** BigInt(length) - 1n
    const low = digits(min > least ? min : least, length)
    const high = digits(max < most ? max : most, length)
    patterns.push(...between(low, high))
  }
  return joined(patterns, decimals).join(' | ')
}

/** As GBNF; numbers of any digits are one alternative for all lengths. */
function joined(patterns: readonly DigitPattern[], decimals: number): readonly string[] {
  const whole = patterns.filter((pattern) => pattern.length > decimals + 1 && isAny(pattern))
  const [first] = whole
  if (first === undefined) return patterns.map((pattern) => write(pattern, decimals))
  const others = patterns.filter((pattern) => !whole.includes(pattern))
  const least = first.length - decimals - 1
  const most = whole.at(-1)!.length - decimals - 1
  const fraction = decimals === 0 ? '' : ` "." ${'[0-9] '.repeat(decimals).trimEnd()}`
  return [
    ...others.map((pattern) => write(pattern, decimals)),
    `[1-9] [0-9]{${least},${most}}${fraction}`,
  ]
}

/** Lengths follow one another, so that those of any digits do, too. */
const isAny = (pattern: DigitPattern): boolean =>
  pattern.every(([first, last], index) => first === (index === 0 ? 1 : 0) && last === 9)

function digits(value: bigint, length: number): number[] {
  return Array.from(String(value).padStart(length, '0'), Number)
}

/** Every sequence of digits from the low to the high one, both of one length. */
function between(low: readonly number[], high: readonly number[]): DigitPattern[] {
  const [first = 0, ...lowRest] = low
  const [last = 0, ...highRest] = high
  if (low.length === 0) return [[]]
  if (first === last) return between(lowRest, highRest).map((rest) => [[first, first], ...rest])
  const zeros = lowRest.map(() => 0)
  const nines = lowRest.map(() => 9)
  const startsWhole = lowRest.every((digit) => digit === 0)
  const endsWhole = highRest.every((digit) => digit === 9)
  const from = startsWhole ? first : first + 1
  const to = endsWhole ? last : last - 1
  const patterns: DigitPattern[] = []
  if (!startsWhole) {
    patterns.push(...between(lowRest, nines).map((rest) => [[first, first], ...rest] as const))
  }
  if (from <= to) patterns.push([[from, to], ...zeros.map(() => [0, 9] as const)])
  if (!endsWhole) {
    patterns.push(...between(zeros, highRest).map((rest) => [[last, last], ...rest] as const))
  }
  return patterns
}

function write(pattern: DigitPattern, decimals: number): string {
  const classes = pattern.map(([first, last]) =>
    first === last ? `"${first}"` : `[${first}-${last}]`,
  )
  if (decimals > 0) classes.splice(classes.length - decimals, 0, '"."')
  return classes.join(' ')
}
