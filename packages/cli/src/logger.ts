import type { Logger } from '@cllm/core'
import pino, { type DestinationStream } from 'pino'
import pretty from 'pino-pretty'
import type { CllmConfig } from './config/schema.js'

const standardError = 2

/** What the configuration says of logging. */
export type LogSettings = CllmConfig['logging']

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

/** The logger that the configuration asks for: readable lines on a terminal, JSON elsewhere. */
export const createLogger = (
  { level, file }: LogSettings,
  terminal: LogTerminal = { isTTY: process.stderr.isTTY },
): Logger => pino({ level }, open(file, terminal))
