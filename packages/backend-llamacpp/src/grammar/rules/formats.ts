const year = '[0-9]{4}'
const leapYear = '(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)'
const days = [
  `${year}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])`,
  `${year}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)`,
  `${year}-02-(?:0[1-9]|1[0-9]|2[0-8])`,
  `${leapYear}-02-29`,
]
const date = `(?:${days.join('|')})`
const clock = '(?:[01][0-9]|2[0-3]):[0-5][0-9]'
const time = `${clock}:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]${clock})`
const octet = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
const label = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?'
const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,24}"

/**
 * The formats of strings that can be kept to, as patterns. Times are those of RFC 3339, with an
 * offset and without leap seconds; the parts of mail addresses are short.
 */
export const formats: Readonly<Record<string, string>> = {
  date: `^${date}$`,
  time: `^${time}$`,
  'date-time': `^${date}T${time}$`,
  uuid: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
  email: `^${atom}(?:\\.${atom})?@${label}(?:\\.${label}){1,3}$`,
  ipv4: `^${octet}(?:\\.${octet}){3}$`,
}
