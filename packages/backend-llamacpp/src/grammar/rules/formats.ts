import { LinearPattern } from '../pattern/nfa.js'
import { unlessProblem } from '../pattern/parse-pattern.js'
import type { Spend } from '../refuse.js'

// years from 1000 to 2099: most dates are within, and all validators accept them
const century = '(?:1[0-9]|20)'
const year = `${century}[0-9]{2}`
const leapYear = `(?:${century}(?:0[48]|[2468][048]|[13579][26])|(?:1[26]|20)00)`
const days = [
  `${year}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])`,
  `${year}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)`,
  `${year}-02-(?:0[1-9]|1[0-9]|2[0-8])`,
  `${leapYear}-02-29`,
]
const date = `(?:${days.join('|')})`
const clock = '(?:[01][0-9]|2[0-3]):[0-5][0-9]'
const time = `${clock}:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]${clock})`
const octet = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
const ipv4 = `${octet}(?:\\.${octet}){3}`
const group = '[0-9a-f]{1,4}'
const ipv6 = `(?:${group}:){7}${group}|(?:${group}:){1,6}:${group}|::${group}|::`
// top-level domains of up to three letters, or longer ones that do not begin as special names (.test, .local, .onion)
const topUpTo = (most: number | '') =>
  `(?:[A-Za-z]{2,3}|[B-DF-HJKMNP-SU-Zb-df-hjkmnp-su-z][A-Za-z]{3,${most}}|info|online|tech)`
const top = topUpTo(9)
// host names without the double hyphens of internationalized names
const hostname = `(?:[A-Za-z0-9]{1,12}(?:-[A-Za-z0-9]{1,7})?\\.){1,3}${top}`
const longHostname = `(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,28}\\.){1,3}${top}`
// host names of any length, for which an automaton needs fewer states
const anyHostname = `(?:[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*\\.)+${topUpTo('')}`
const atom = '[A-Za-z0-9_+-]'
const segment = '[A-Za-z0-9._~-]{1,20}'
const port = '(?::(?:[1-9][0-9]{1,3}|[1-5][0-9]{4}))?'
const url = (host: string, more: string, fragment: string) =>
  `https?://(?:${host}|localhost|${ipv4})${port}(?:[/?]${more})?(?:#${fragment})?`
const pathCharacter = "[A-Za-z0-9._~!$&'()*+,;=:@/?-]"
/** The usual limit on the characters of an address. */
const usualMost = 200
const uri = url(hostname, `${pathCharacter}{0,92}`, `${pathCharacter}{0,15}`)
const escapedCharacter = `(?:${pathCharacter}|%[0-9A-F]{2})`
const longUri = `^${url(longHostname, `${escapedCharacter}{0,500}`, `${escapedCharacter}{0,80}`)}$`
const uuid = (version: string) =>
  `^[0-9a-f]{8}-[0-9a-f]{4}-${version}[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`
const some = '[0-9]{1,4}'
const clockParts = `(?:${some}H(?:${some}M(?:${some}S)?)?|${some}M(?:${some}S)?|${some}S)`
const duration = `P(?:${some}D(?:T${clockParts})?|T${clockParts}|${some}W)`

/**
 * The supported formats of strings, as patterns. They are narrower than their standards: all usual validators accept
 * their texts, including pydantic's and zod's. Times are those of RFC 3339, with an offset and without leap seconds.
 */
export const formats: Readonly<Record<string, string>> = {
  date: `^${date}$`,
  time: `^${time}$`,
  'date-time': `^${date}T${time}$`,
  duration: `^${duration}$`,
  uuid: uuid('[1-8]'),
  ...Object.fromEntries(Array.from('1345678', (version) => [`uuid${version}`, uuid(version)])),
  email: `^${atom}+(?:\\.${atom}+)*@${anyHostname}$`,
  hostname: `^${anyHostname}$`,
  ipv4: `^${ipv4}$`,
  ipv6: `^(?:${ipv6})$`,
  // networks of a single address, so that no host bit is set
  ipv4network: `^${ipv4}(?:/32)?$`,
  ipv6network: `^(?:${ipv6})(?:/128)?$`,
  ipv4interface: `^${ipv4}(?:/(?:[12]?[0-9]|3[0-2]))?$`,
  ipv6interface: `^(?:${ipv6})(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?$`,
  uri: `^${uri}$`,
  // ajv-formats accepts no IP address, no localhost, and a query only behind a path
  url: `^https?://${hostname}${port}(?:/${pathCharacter}{0,92}(?:#${pathCharacter}{0,15})?)?$`,
  'uri-reference': `^(?:${uri}|(?:/${segment}){1,6})$`,
  'uri-template': `^https?://${hostname}(?:/(?:${segment}|\\{[a-z]{1,10}\\})){0,4}$`,
  // one of the kinds for which pydantic uses this format; MongoDsn has no other format
  'multi-host-uri': `^postgresql://(?:[a-z0-9]{1,15}(?::[A-Za-z0-9]{1,20})?@)?${hostname}(?::[1-9][0-9]{0,3})?(?:,${hostname}(?::[1-9][0-9]{0,3})?){0,2}/[a-z0-9_]{1,20}$`,
  hex: '^(?:[0-9a-f]{2}){0,64}$',
  color: '^#[0-9a-f]{6}$',
  // expressions that JavaScript and Python read alike
  regex: '^\\^?(?:(?:[A-Za-z0-9_ -]|\\\\[dws]|\\.)[+*?]?){1,30}\\$?$',
  byte: '^(?:[A-Za-z0-9+/]{4}){0,100}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$',
  base64: '^(?:[A-Za-z0-9+/]{4}){0,100}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$',
  // only lengths that need no padding
  base64url: '^(?:[A-Za-z0-9_-]{4}){0,25}$',
  jwt: '^eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9\\.eyJ[A-Za-z0-9_-]{4,120}\\.[A-Za-z0-9_-]{43}$',
  emoji: String.raw`^\p{Emoji_Presentation}{1,4}$`,
  'json-pointer': '^(?:/[A-Za-z0-9_-]{1,40}){0,10}$',
  'json-pointer-uri-fragment': '^#(?:/[A-Za-z0-9_-]{1,40}){0,10}$',
  'relative-json-pointer': '^[0-9](?:#|(?:/[A-Za-z0-9_-]{1,40}){0,10})$',
}

/** Wider patterns for formats without other keywords: what people write, within the limits of usual validators. */
const longer: Readonly<Record<string, string>> = {
  email: `^${atom}(?:\\.?${atom}){0,31}@${longHostname}$`,
  hostname: `^${longHostname}$`,
  uri: longUri,
}

// with as few states as possible, as an automaton that counts characters has each state once per count
const countableHost = '(?:[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*\\.)+[A-Za-z]{2,3}'
/** Patterns for formats with a small `maxLength`: they have no repetition with a count. */
const countable: Readonly<Record<string, string>> = {
  uri: `^https?://${countableHost}(?:[/?]${pathCharacter}*)?(?:#${pathCharacter}*)?$`,
  url: `^https?://${countableHost}(?:/${pathCharacter}*(?:#${pathCharacter}*)?)?$`,
}

/** Other names of formats, and wider formats, written as one of the formats above. */
const same: Readonly<Record<string, string>> = {
  'idn-email': 'email',
  'idn-hostname': 'hostname',
  iri: 'uri',
  'iri-reference': 'uri-reference',
  'iso-time': 'time',
  'iso-date-time': 'date-time',
  guid: 'uuid',
  ipvanyaddress: 'ipv4',
  ipvanynetwork: 'ipv4network',
  ipvanyinterface: 'ipv4interface',
  'name-email': 'email',
}

/**
 * The patterns of a format, the widest first; none if the format is an annotation.
 *
 * @param max - the `maxLength` of the strings
 */
export function formatPatterns(format: string, max = Infinity): readonly string[] {
  const name = Object.hasOwn(same, format) ? same[format]! : format
  return [longer, formats, ...(max < usualMost ? [countable] : [])].flatMap((one) =>
    Object.hasOwn(one, name) ? one[name]! : [],
  )
}

/** Short texts of formats for which clients often add patterns that no automaton can follow. */
const examples: Readonly<Record<string, readonly string[]>> = {
  duration: ['P1D', 'P12DT3H', 'PT1H2M3S', 'PT5M', 'P3W'],
  email: ['a@b.co', 'a_b.c+d@e-f.info', 'A-1@b.c.de', 'a.b.c@D.e.f.cloud'],
  hostname: ['a.co', 'a-b.c.info', 'A1.b2.de', 'a.b.C.cloud'],
  emoji: ['\u{1f600}', '\u{1f601}\u{1f64f}'],
  ipv6: ['::1', '1:2:3:4:5:6:7:8', '::'],
}

/**
 * Whether texts of a format seem to match a pattern that no automaton can follow; false if linear time does not
 * suffice to tell. `RegExp` cannot be used, as it may take years for ten characters.
 */
export function formatMatches(format: string, pattern: string, spend: Spend): boolean {
  const texts = examples[Object.hasOwn(same, format) ? same[format]! : format] ?? []
  if (texts.length === 0) return false
  const test = () => {
    const expression = new LinearPattern(pattern, spend)
    return texts.every((text) => expression.test(text))
  }
  return unlessProblem(test, () => false)
}
