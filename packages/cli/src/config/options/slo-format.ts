import {
  duration,
  format,
  isRecord,
  parseJson,
  splitAtCommas,
  type ValueFormat,
} from './value-format.js'

/** Latency limits in milliseconds, as the option `slo` of a policy takes them. */
export type SloSetting = Readonly<Record<string, unknown>>

const figures = ['ttft', 'itl']
const groups = ['tenants', 'priorities']

/** Times such as `300ms` become milliseconds; what is wrong stays as it is, for the check. */
const milliseconds = (limits: unknown): unknown =>
  isRecord(limits)
    ? Object.fromEntries(Object.entries(limits).map(([name, limit]) => [name, timeOf(limit)]))
    : limits

const timeOf = (limit: unknown): unknown => {
  try {
    return typeof limit === 'string' ? duration(limit.trim()) : limit
  } catch {
    return limit
  }
}

const isLimits = (value: unknown): boolean =>
  isRecord(value) &&
  Object.entries(value).every(
    ([name, limit]) => figures.includes(name) && typeof limit === 'number' && limit > 0,
  )

const isSlo = (value: unknown): boolean => {
  if (!isRecord(value)) return false
  const own = Object.entries(value).filter(([name]) => groups.includes(name))
  const all = Object.entries(value).filter(([name]) => !groups.includes(name))
  return (
    isLimits(Object.fromEntries(all)) &&
    own.every(([, named]) => isRecord(named) && Object.values(named).every(isLimits))
  )
}

const parse = (text: string): unknown => {
  if (text.trim().startsWith('{')) return parseJson(text)
  const pairs = splitAtCommas(text).map((part) => part.split(':'))
  return pairs.every((pair) => pair.length === 2) ? (Object.fromEntries(pairs) as unknown) : text
}

/** Latency limits, of all requests and of some; written as text, `ttft:300ms,itl:30ms` or JSON. */
export const slo = (): ValueFormat<SloSetting> =>
  format('limits such as ttft:300ms,itl:30ms', isSlo, { parse, placeholder: 'LIMITS' })

/** Makes milliseconds of the times in {@link slo}. */
export const normalizeSlo = (value: unknown): unknown => {
  const given = typeof value === 'string' ? parse(value) : value
  if (!isRecord(given)) return given
  const entries = Object.entries(given).map(([name, limit]) => {
    if (!groups.includes(name) || !isRecord(limit)) return [name, timeOf(limit)]
    const named = Object.entries(limit).map(([who, limits]) => [who, milliseconds(limits)])
    return [name, Object.fromEntries(named)]
  })
  return Object.fromEntries(entries) as unknown
}
