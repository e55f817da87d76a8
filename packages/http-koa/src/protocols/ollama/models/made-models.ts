import { untagged } from '../untagged.js'
import { expectedField } from '../../../request/expected-field.js'

/** A model that is made of another one, as Ollama's Modelfiles describe it. */
export interface MadeModel {
  readonly name: string
  /** The name of a model that this server serves. */
  readonly from: string
  readonly system?: string | undefined
  /** A Go template. */
  readonly template?: string | undefined
  /** Options in Ollama's names. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** Messages that come before every conversation. */
  readonly messages: readonly { readonly role: string; readonly content: string }[]
}

/** Models at a time. */
const most = 1000
/** Characters of all of them as JSON. */
const mostText = 16 * 1024 * 1024

/** Models that clients have made with `/api/create` and `/api/copy`; they live as long as the server. */
export class MadeModels {
  readonly #models = new Map<string, MadeModel>()
  readonly #sizes = new Map<string, number>()
  #size = 0

  /** All of them, the oldest first. */
  all(): readonly MadeModel[] {
    return [...this.#models.values()]
  }

  /** The model of a name, with or without Ollama's `:latest`. */
  get(name: string): MadeModel | undefined {
    return this.#models.get(untagged(name))
  }

  /**
   * Adds a model, in place of one of the same name.
   *
   * @throws as {@link MadeModels.sizeOf}
   */
  add(model: MadeModel): void {
    const name = untagged(model.name)
    const size = this.sizeOf(model)
    this.remove(name)
    this.#models.set(name, { ...model, name })
    this.#sizes.set(name, size)
    this.#size += size
  }

  /** Removes a model, if there is one of this name. */
  remove(name: string): void {
    const known = untagged(name)
    this.#size -= this.#sizes.get(known) ?? 0
    this.#sizes.delete(known)
    this.#models.delete(known)
  }

  /**
   * The characters of a model that there is room for.
   *
   * @throws `invalid_request` where there is none
   */
  sizeOf(model: MadeModel): number {
    const name = untagged(model.name)
    if (!this.#models.has(name) && this.#models.size >= most) {
      throw expectedField('model', `at most ${most} models`)
    }
    const size = JSON.stringify(model).length
    if (this.#size - (this.#sizes.get(name) ?? 0) + size > mostText) {
      throw expectedField('model', `models that have ${mostText} characters together`)
    }
    return size
  }
}
