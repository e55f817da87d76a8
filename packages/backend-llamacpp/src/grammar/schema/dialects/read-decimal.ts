type Keywords = Readonly<Record<string, unknown>>

/** How pydantic begins the pattern of a decimal number that is written as a text. */
const begin = String.raw`^(?!^[-+.]*$)[+-]?0*`
/** Digits that a double keeps. */
const precision = 15

/** A size in bytes: its units are in no schema, and it may be an integer too. */
const byteSize = String.raw`^\s*(\d*\.?\d+)\s*(\w+)?`

/** What pydantic says by patterns in the words of draft 2020-12. */
export function readPydantic(schema: Keywords): Keywords {
  const { anyOf } = schema
  if (!Array.isArray(anyOf)) return schema
  const ways = (anyOf as readonly unknown[]).filter(
    (way) => !isObject(way) || way['pattern'] !== byteSize,
  )
  return readDecimal(ways.length === 0 ? schema : { ...schema, anyOf: ways })
}

/**
 * pydantic's Decimal is a number, whose limits stand beside it, or a text, whose pattern says how many
 * digits there are; what is valid keeps to both. So where one of them says something, it is written as
 * a number that does.
 */
function readDecimal(schema: Keywords): Keywords {
  const { anyOf } = schema
  if (!Array.isArray(anyOf)) return schema
  const ways = anyOf as readonly unknown[]
  const text = ways.find((way) => isObject(way) && isDecimalText(way)) as Keywords | undefined
  const number = ways.find((way) => isObject(way) && way['type'] === 'number')
  if (text === undefined || !isObject(number)) return schema
  const kept = { ...number, ...digitsOf(String(text['pattern']), number) }
  if (Object.keys(kept).every((keyword) => keyword === 'type')) return schema
  return {
    ...schema,
    anyOf: ways.flatMap((way) => (way === text ? [] : [way === number ? kept : way])),
  }
}

const isObject = (value: unknown): value is Keywords => typeof value === 'object' && value !== null

const isDecimalText = ({ type, pattern }: Keywords): boolean =>
  type === 'string' && typeof pattern === 'string' && pattern.startsWith(begin)

/** What the pattern says of the digits before and behind the point, as limits of a number. */
function digitsOf(pattern: string, number: Keywords): Keywords {
  const rest = pattern.slice(begin.length)
  const whole = /^\(\?:\\d\{0,(\d+)\}\|/.exec(rest)?.[1]
  // where only all digits together are counted, there is no point
  const behind = /\\\.\??\\d\{0,(\d+)\}0\*\$/.exec(rest)?.[1] ?? (whole === undefined ? whole : '0')
  if (behind === undefined) return {}
  const decimals = Number(behind)
  const step = number['multipleOf'] === undefined ? { multipleOf: Number(`1e-${decimals}`) } : {}
  if (whole === undefined || Number(whole) + decimals > precision) return step
  const most = Number((10 ** Number(whole) - 10 ** -decimals).toFixed(decimals))
  return {
    ...step,
    minimum: Math.max(-most, limitOf(number['minimum'], -most)),
    maximum: Math.min(most, limitOf(number['maximum'], most)),
  }
}

const limitOf = (given: unknown, otherwise: number): number =>
  typeof given === 'number' ? given : otherwise
