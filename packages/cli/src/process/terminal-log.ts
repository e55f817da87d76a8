import type { DestinationStream } from 'pino'

/** A line of the log as it is read back; its other fields are the message's own. */
interface Line {
  readonly level: number
  readonly time: number
  readonly msg?: string
  readonly err?: { readonly stack?: string }
  readonly [field: string]: unknown
}

const levels: Readonly<Record<number, string>> = { 20: 'debug', 40: 'warning', 50: 'error' }
const colours: Readonly<Record<number, number>> = { 40: 33, 50: 31 }
const dim = (text: string): string => (text === '' ? '' : `\u001B[2m${text}\u001B[22m`)

/** Writes lines of the log for people: a time, what happened, and its fields; a request is one line. */
export function terminalLog(to: DestinationStream): DestinationStream {
  return { write: (text) => to.write(`${readable(JSON.parse(text) as Line)}\n`) }
}

function readable(line: Line): string {
  const { level, time, pid: _, hostname: _host, msg = '', err, ...fields } = line
  const name = levels[level] ?? ''
  const at = dim(new Date(time).toTimeString().slice(0, 8))
  const colour = colours[level]
  const label =
    name === '' ? '' : `${colour === undefined ? name : `\u001B[${colour}m${name}\u001B[39m`} `
  const text = msg === 'request' && 'path' in fields ? requestText(fields) : `${msg}${rest(fields)}`
  return `${at} ${label}${text}${err?.stack === undefined ? '' : `\n${err.stack}`}`
}

/** `POST /v1/chat/completions 200 31.8 s · qwen3-0.6b · 24 → 17 tokens · first after 0.6 s · 21 tok/s · stop` */
function requestText(fields: Readonly<Record<string, unknown>>): string {
  const { requestId, method, path, status, ms, cut, key, model, finish, ...figures } = fields
  const { promptTokens, cachedTokens, generatedTokens, ttftMs, tokensPerSecond, ...others } =
    figures
  const cached =
    cachedTokens === undefined || cachedTokens === 0 ? '' : ` (${shown(cachedTokens)} cached)`
  const parts = [
    model,
    promptTokens !== undefined &&
      `${shown(promptTokens)}${cached} → ${shown(generatedTokens ?? 0)} tokens`,
    ttftMs !== undefined && `TTFT ${duration(ttftMs)}`,
    tokensPerSecond !== undefined && `${shown(tokensPerSecond)} tok/s`,
    finish,
    cut === true && 'the client left',
    key,
  ].filter((part) => part !== false && part !== undefined)
  const head = `${String(method)} ${String(path)} ${String(status)} ${duration(ms)}`
  return `${[head, ...parts].join(' · ')}${rest({ ...others, id: requestId })}`
}

const duration = (ms: unknown): string =>
  typeof ms !== 'number' ? '' : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`

const rest = (fields: Readonly<Record<string, unknown>>): string =>
  dim(
    Object.entries(fields)
      .map(([name, value]) => ` ${name}=${shown(value)}`)
      .join(''),
  )

/** Without control characters, which could steer the terminal. */
const shown = (value: unknown): string =>
  typeof value === 'number'
    ? String(Number(value.toPrecision(Math.max(3, String(Math.trunc(value)).length))))
    : typeof value === 'string'
      ? value.replaceAll(/\p{Cc}/gu, ' ')
      : JSON.stringify(value)
