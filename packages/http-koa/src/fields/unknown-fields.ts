import type { Logger } from '@cllm/core'
import type { JsonObject } from '../body/read-json-body.js'

/** The most names to remember, so that no client can fill the memory or the log. */
const mostNames = 100

/** Logs a warning for unknown fields, once per name. */
export class UnknownFields {
  readonly #seen = new Set<string>()

  /** Logs the fields of the body that are not known. */
  warn(body: JsonObject, known: Readonly<Record<string, unknown>>, logger: Logger): void {
    for (const field of Object.keys(body)) {
      if (Object.hasOwn(known, field) || this.#seen.has(field)) continue
      if (this.#seen.size >= mostNames || field.length > 100) continue
      this.#seen.add(field)
      logger.warn({ field }, 'unknown field in a request is ignored')
    }
  }
}
