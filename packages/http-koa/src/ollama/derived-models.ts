import { CllmError, type EngineDirectory } from '@cllm/core'

/** A model that is made of another one, as Ollama's Modelfiles describe it. */
export interface DerivedModel {
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
/** Characters of a name. */
export const longestName = 256

/** Models that clients have made with `/api/create` and `/api/copy`; they live as long as the server. */
export class DerivedModels {
  readonly #models = new Map<string, DerivedModel>()

  list(): readonly DerivedModel[] {
    return [...this.#models.values()]
  }

  find(name: string): DerivedModel | undefined {
    return this.#models.get(untagged(name))
  }

  /**
   * Adds a model, in place of one of the same name.
   *
   * @param isFile - whether it was made of a file, which is served under this name
   * @throws `invalid_request` for a name that the server's own models have, or none
   */
  add(model: DerivedModel, directory: EngineDirectory, isFile = false): void {
    const name = untagged(model.name)
    const isOther = !isFile && directory.list().includes(name)
    if (name === '' || name.length > longestName || isOther) throw refusedName()
    if (!this.#models.has(name) && this.#models.size >= most) {
      throw refused('model', `at most ${most} models`)
    }
    this.#models.set(name, { ...model, name })
  }

  /** Whether there was such a model. */
  remove(name: string): boolean {
    return this.#models.delete(untagged(name))
  }
}

/** A name without Ollama's `:latest`. */
export const untagged = (name: string): string => name.replace(/:latest$/, '')

/** The error for a name that a model of the server has. */
export const refusedName = (): CllmError =>
  refused('model', 'a name that no model of this server has')

function refused(field: string, expected: string): CllmError {
  return new CllmError('invalid_request', `${field}: expected ${expected}`, { details: { field } })
}
