import type { Logger } from '@cllm/core'
import type { LogLevelControl } from '@cllm/http-koa'
import pino, { type DestinationStream } from 'pino'
import pretty from 'pino-pretty'
import type { CllmConfig } from './config/schema.js'

const standardError = 2

/** What the configuration says of logging. */
export type LogSettings = Pick<CllmConfig['logging'], 'file'> &
  Partial<Pick<CllmConfig['logging'], 'content'>> &
  Pick<LogLevelControl, 'level'>

/** A logger whose level can be changed. */
export type LevelledLogger = Logger & LogLevelControl

/** Fields that hold keys, wherever they come up: never shown. */
const secretPaths = ['authorization', 'x-api-key', 'api_key', 'apiKey', 'secret'].flatMap((name) =>
  ['', '*.', '*.*.'].map((where) =>
    name.includes('-') ? `${where.slice(0, -1)}["${name}"]` : `${where}${name}`,
  ),
)

/** Fields that can hold what clients sent. */
const contentPaths = ['prompt', 'messages', 'input', 'text', 'refusal'].flatMap((name) => [
  name,
  `*.${name}`,
])

/** Where lines go that are not written into a file. */
export interface LogTerminal {
  /** True for a person who reads along; lines are JSON otherwise. */
  readonly isTTY: boolean
  /** Default: standard error, for standard output is the commands' own. */
  readonly destination?: DestinationStream
}

const open = (file: string | null, { isTTY, destination }: LogTerminal): DestinationStream => {
  if (file !== null) return pino.destination({ dest: file, mkdir: true, sync: true })
  if (!isTTY) return destination ?? pino.destination({ dest: standardError, sync: true })
  return pretty({
    destination: destination ?? standardError,
    sync: true,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
  })
}

/**
 * The logger that the configuration asks for: readable lines on a terminal, JSON elsewhere. Keys are
 * never in them, and what clients sent only where the settings say so.
 */
export const createLogger = (
  { level, file, content = false }: LogSettings,
  terminal: LogTerminal = { isTTY: process.stderr.isTTY },
): LevelledLogger => {
  const paths = content ? secretPaths : [...secretPaths, ...contentPaths]
  return pino({ level, redact: { paths, censor: '[redacted]' } }, open(file, terminal))
}
