/** A line with its fields. */
export type LogMethod = (fields: Readonly<Record<string, unknown>>, message: string) => void

/** Where log lines go; pino's loggers fit. */
export interface Logger {
  readonly debug: LogMethod
  readonly info: LogMethod
  readonly warn: LogMethod
  readonly error: LogMethod
}

const nothing: LogMethod = () => {}

/** Logs nothing. */
export const silentLogger: Logger = Object.freeze({
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
})
