type Keywords = Readonly<Record<string, unknown>>

/** The integers that a format of OpenAPI's, or of what writes Rust's and Go's types, means. */
const ranges: Readonly<Record<string, readonly [minimum: number, maximum: number]>> = {
  int8: [-128, 127],
  int16: [-32_768, 32_767],
  int32: [-2_147_483_648, 2_147_483_647],
  int64: [-Infinity, Infinity],
  uint8: [0, 255],
  uint16: [0, 65_535],
  uint32: [0, 4_294_967_295],
  uint64: [0, Infinity],
  uint: [0, Infinity],
}

/** Limits of the integers that a `format` names. */
export function readIntegers({ type, format, minimum, maximum }: Keywords): Keywords {
  if (typeof format !== 'string' || !Object.hasOwn(ranges, format)) return {}
  const [least, most] = ranges[format]!
  const types: unknown[] = Array.isArray(type) ? type : [type]
  if (!types.includes('integer') && !types.includes('number')) return {}
  return {
    type: types.map((one) => (one === 'number' ? 'integer' : one)),
    ...limit('minimum', least, minimum, Math.max),
    ...limit('maximum', most, maximum, Math.min),
  }
}

function limit(
  keyword: string,
  value: number,
  given: unknown,
  stricter: (a: number, b: number) => number,
): Keywords {
  if (!Number.isFinite(value)) return {}
  return { [keyword]: typeof given === 'number' ? stricter(value, given) : value }
}
