import type { Logger } from '@cllm/core'
import type { JsonObject } from '../read-json-body.js'

/** As many names are remembered, so that no client can fill the memory or the log. */
const mostNames = 100

/** Warns of fields that mean nothing here, once per name. */
export class UnknownFields {
  readonly #seen = new Set<string>()

  warn(body: JsonObject, known: Readonly<Record<string, unknown>>, logger: Logger): void {
    for (const field of Object.keys(body)) {
      if (Object.hasOwn(known, field) || this.#seen.has(field)) continue
      if (this.#seen.size >= mostNames || field.length > 100) continue
      this.#seen.add(field)
      logger.warn({ field }, 'unknown field in a request is ignored')
    }
  }
}
