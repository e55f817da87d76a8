import type { Logger } from '@cllm/core'
import type { LogLevelControl } from '@cllm/http-koa'
import pino from 'pino'
import type { CllmConfig } from '../config/options/schema.js'
import { LogLines } from './log-lines.js'
import { terminalLog } from './terminal-log.js'

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

/** Takes lines. */
interface LineWriter {
  readonly write: (line: string) => void
}

/** Destination of lines when there is no log file. */
export interface LogTerminal {
  /** True for readable lines; otherwise lines are JSON. */
  readonly isTTY: boolean
  /** Default: standard error, because commands print their results to standard output. */
  readonly destination?: LineWriter
}

const open = (file: string | null, { isTTY, destination }: LogTerminal): LineWriter => {
  if (file !== null) return LogLines.toFile(file)
  if (!isTTY) return destination ?? new LogLines()
  return terminalLog(destination ?? new LogLines())
}

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
