import { mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { attempt, CllmError, type Logger } from '@cllm/core'
import type { LogLevelControl } from '@cllm/http-koa'
import pino from 'pino'
import type { CllmConfig } from '../config/options/schema.js'
import { orInvalid } from '../config/messages.js'

/** The logging part of the configuration. */
export type LogSettings = Pick<CllmConfig['logging'], 'file'> &
  Partial<Pick<CllmConfig['logging'], 'content'>> &
  Pick<LogLevelControl, 'level'>

/** A logger with a level that can change at run time. */
export type LevelledLogger = Logger & LogLevelControl

/** Fields with keys, at any depth: never logged. */
const secretPaths = ['authorization', 'x-api-key', 'api_key', 'apiKey', 'secret'].flatMap((name) =>
  ['', '*.', '*.*.'].map((where) =>
    name.includes('-') ? `${where.slice(0, -1)}["${name}"]` : `${where}${name}`,
  ),
)

/** Fields that can contain text from clients. */
const contentPaths = ['prompt', 'messages', 'input', 'text', 'refusal'].flatMap((name) => [
  name,
  `*.${name}`,
])

/** Destination of lines when there is no log file. */
interface LogTerminal {
  /** True for readable lines; otherwise lines are JSON. */
  readonly isTTY: boolean
  /** Default: standard error, because commands print their results to standard output. */
  readonly destination?: Pick<LogLines, 'write'>
}

function open(file: string | null, terminal: LogTerminal): Pick<LogLines, 'write'> {
  if (file !== null) return LogLines.toFile(file)
  const { isTTY, destination = new LogLines() } = terminal
  if (!isTTY) return destination
  return { write: (text) => destination.write(`${readable(text)}\n`) }
}

/** Replaces control characters, which could control the terminal; a message may have line breaks. */
const plain = (_name: string, value: unknown): unknown =>
  typeof value === 'string' ? value.replaceAll(/(?!\n)\p{Cc}/gu, ' ') : value

/**
 * Creates the configured logger: readable lines on a terminal, JSON elsewhere. Lines never contain
 * keys, and contain text from clients only if the settings allow it.
 *
 * @throws `invalid_configuration` when the log file cannot be opened
 */
export const createLogger = (
  { level, file, content = false }: LogSettings,
  terminal: LogTerminal = { isTTY: process.stderr.isTTY },
): LevelledLogger => {
  const paths = content ? secretPaths : [...secretPaths, ...contentPaths]
  return pino({ level, redact: { paths, censor: '[redacted]' } }, open(file, terminal))
}

/**
 * Logs errors that nothing catches and that end this process, such as a rejection in a plug-in that nobody awaits. The
 * process ends all the same. Returns a function that stops the listening.
 */
export function tellUncaught(logger: Logger): () => void {
  const tell = (error: unknown): void => {
    const { code, message } = CllmError.from(error)
    attempt(() =>
      logger.error({ code, err: error }, `nothing catches this, the process ends: ${message}`),
    )
  }
  process.on('uncaughtExceptionMonitor', tell)
  return () => void process.off('uncaughtExceptionMonitor', tell)
}

/** The level of this process's logger; setting it also tells the other processes. */
export function everyLevel(own: LogLevelControl, tell: (level: string) => void): LogLevelControl {
  return {
    get level() {
      return own.level
    },
    set level(level) {
      own.level = level
      tell(level)
    },
  }
}

const standardError = 2
/** Milliseconds before a full pipe is tried again. */
const patienceMs = 20

/** What {@link LogLines} writes with; the default is `fs.writeSync`. */
type WriteBytes = (fd: number, bytes: Uint8Array) => number

/**
 * Where log lines go: each is written before `write` returns, so that none is missing after a crash. A line that
 * cannot be written, as on a full disk, is lost, and never an error: a failing log must not fail the work.
 */
export class LogLines {
  /** Whether the last write failed, which is reported once. */
  #isFailing = false
  /** Whether the output ends with a part of a line. */
  #isTorn = false

  constructor(
    private readonly fd: number = standardError,
    private readonly writeBytes: WriteBytes = writeSync,
  ) {}

  /**
   * Appends to a file; makes it and its folder.
   *
   * @throws `invalid_configuration` when it cannot be opened
   */
  static toFile(file: string): LogLines {
    const open = () => {
      mkdirSync(dirname(file), { recursive: true })
      return new LogLines(openSync(file, 'a'))
    }
    return orInvalid(open, 'the log file cannot be opened')
  }

  write(line: string): void {
    let rest: Uint8Array = Buffer.from(this.#isTorn ? `\n${line}` : line)
    const { length } = rest
    while (rest.length > 0) {
      try {
        rest = rest.subarray(this.writeBytes(this.fd, rest))
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException
        if (code === 'EAGAIN') Atomics.wait(pause, 0, 0, patienceMs)
        else {
          this.#isTorn ||= rest.length < length
          this.#fail(message)
          return
        }
      }
    }
    this.#isFailing = false
    this.#isTorn = false
  }

  #fail(reason: string): void {
    if (this.#isFailing) return
    this.#isFailing = true
    if (this.fd === standardError) return
    const told = Buffer.from(`lines of the log are lost: ${reason}\n`)
    attempt(() => this.writeBytes(standardError, told)) // else nobody can be told
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4))

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

/** A line of the log, which is JSON, for people: a time, what happened, and its fields; a request is one line. */
function readable(json: string): string {
  const line = JSON.parse(json, plain) as Line
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

/** A value in one line. */
const shown = (value: unknown): string =>
  typeof value === 'number'
    ? String(Number(value.toPrecision(Math.max(3, String(Math.trunc(value)).length))))
    : typeof value === 'string'
      ? value.replaceAll('\n', ' ')
      : JSON.stringify(value)
