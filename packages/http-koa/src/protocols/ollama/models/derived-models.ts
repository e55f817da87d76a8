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
/** Characters of all of them as JSON. */
const mostText = 16 * 1024 * 1024
/** Characters of a name. */
const longestName = 256

/** Models that clients have made with `/api/create` and `/api/copy`; they live as long as the server. */
export class DerivedModels {
  readonly #models = new Map<string, DerivedModel>()
  readonly #sizes = new Map<string, number>()
  #size = 0

  /** Those that can be asked now: what they are made of is there, and no model of the server has their name. */
  list(directory: EngineDirectory): readonly DerivedModel[] {
    const served = servedNames(directory)
    return [...this.#models.values()].filter(
      (model) => !isHidden(model, served) && isThere(model.from, directory),
    )
  }

  /** The model of a name, unless the server has one of that name now. */
  find(name: string, directory: EngineDirectory): DerivedModel | undefined {
    const model = this.#models.get(untagged(name))
    if (model === undefined || model.name === model.from) return model
    return isHidden(model, servedNames(directory)) ? undefined : model
  }

  /**
   * Adds a model, in place of one of the same name.
   *
   * @throws as {@link DerivedModels.check}
   */
  add(model: DerivedModel): void {
    const name = untagged(model.name)
    const size = this.#sizeWith(model)
    this.remove(name)
    this.#models.set(name, { ...model, name })
    this.#sizes.set(name, size)
    this.#size += size
  }

  /**
   * Whether a model can be added.
   *
   * @throws `invalid_request` for a name that the server's own models have, or none, and for more models
   *   than there is room for
   */
  check(model: DerivedModel, directory: EngineDirectory): void {
    const name = untagged(model.name)
    if (name === '' || name.length > longestName || servedNames(directory).has(name)) {
      throw refused('model', 'a name that no model of this server has')
    }
    this.#sizeWith(model)
  }

  /** Removes a model, if there is one of this name. */
  remove(name: string): void {
    const known = untagged(name)
    this.#size -= this.#sizes.get(known) ?? 0
    this.#sizes.delete(known)
    this.#models.delete(known)
  }

  /** The size of a model that there is room for. */
  #sizeWith(model: DerivedModel): number {
    const name = untagged(model.name)
    if (!this.#models.has(name) && this.#models.size >= most) {
      throw refused('model', `at most ${most} models`)
    }
    const size = JSON.stringify(model).length
    if (this.#size - (this.#sizes.get(name) ?? 0) + size > mostText) {
      throw refused('model', `models that have ${mostText} characters together`)
    }
    return size
  }
}

/** Whether the server has got a model of this name since; one that is made of a file has the file's name. */
const isHidden = ({ name, from }: DerivedModel, served: ReadonlySet<string>): boolean =>
  name !== from && served.has(name)

function isThere(name: string, directory: EngineDirectory): boolean {
  try {
    directory.nameOf(name)
    return true
  } catch {
    return false
  }
}

/** The names of the models that the server itself has, with their aliases and their adapters. */
const servedNames = (directory: EngineDirectory): ReadonlySet<string> =>
  new Set([
    ...directory.list().flatMap((id) => [id, ...(directory.status(id).aliases ?? [])]),
    ...(directory.adapted?.() ?? []).flatMap(({ name, adapter }) =>
      adapter === undefined ? [] : [name, adapter],
    ),
  ])

/** A name without Ollama's `:latest`. */
export const untagged = (name: string): string => name.replace(/:latest$/, '')

function refused(field: string, expected: string): CllmError {
  return new CllmError('invalid_request', `${field}: expected ${expected}`, { details: { field } })
}
