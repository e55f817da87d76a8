import type { EngineDirectory } from '@cllm/core'
import { untagged } from '../untagged.js'
import type { MadeModel, MadeModels } from './made-models.js'
import { expectedField } from '../../../request/expected-field.js'

/** Characters of a name. */
const longestName = 256

/** The models that clients have made, as far as the models of a server let them be seen. */
export class VisibleModels {
  /** @param directory - the server's models; that it knows those made of them as well does no harm */
  constructor(
    private readonly made: MadeModels,
    private readonly directory: EngineDirectory,
  ) {}

  /** Those that can be asked now: what they are made of is there, and no model of the server has their name. */
  list(): readonly MadeModel[] {
    const served = this.#servedNames()
    return this.made.all().filter((model) => !isHidden(model, served) && this.#isThere(model.from))
  }

  /** The model of a name, unless the server has one of that name now. */
  find(name: string): MadeModel | undefined {
    const model = this.made.get(name)
    if (model === undefined || model.name === model.from) return model
    return isHidden(model, this.#servedNames()) ? undefined : model
  }

  /**
   * Whether a model can be added.
   *
   * @throws `invalid_request` for a name that the server's own models have, or none, and for more models
   *   than there is room for
   */
  check(model: MadeModel): void {
    const name = untagged(model.name)
    if (name === '' || name.length > longestName || this.#servedNames().has(name)) {
      throw expectedField('model', 'a name that no model of this server has')
    }
    this.made.sizeOf(model)
  }

  #isThere(name: string): boolean {
    try {
      this.directory.nameOf(name)
      return true
    } catch {
      return false
    }
  }

  /** The names of the models that the server itself has, with their aliases and their adapters. */
  #servedNames(): ReadonlySet<string> {
    const { directory } = this
    return new Set([
      ...directory.list().flatMap((id) => [id, ...(directory.status(id).aliases ?? [])]),
      ...(directory.adapted?.() ?? []).flatMap(({ name, adapter }) =>
        adapter === undefined ? [] : [name, adapter],
      ),
    ])
  }
}

/** Whether the server has got a model of this name since; one that is made of a file has the file's name. */
const isHidden = ({ name, from }: MadeModel, served: ReadonlySet<string>): boolean =>
  name !== from && served.has(name)
