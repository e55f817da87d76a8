import { overriding } from '../client/overriding.js'
import { type EngineDirectory, type ModelPreset, type ModelPresets, CllmError } from '@cllm/core'
import type { ClosableDirectory } from '../server/closable-directory.js'

/** Characters of a name. */
const longestName = 256
/** Presets at a time. */
const most = 1000
/** Characters of all of them as JSON. */
const mostText = 16 * 1024 * 1024

/** A name without the tag that Ollama's clients write. */
const untagged = (name: string): string => name.replace(/:latest$/, '')

class PresetList implements ModelPresets {
  readonly #presets = new Map<string, ModelPreset>()
  readonly #sizes = new Map<string, number>()
  #size = 0

  constructor(
    private readonly models: EngineDirectory,
    presets: readonly ModelPreset[],
  ) {
    for (const preset of presets) this.add(preset)
  }

  list(): readonly ModelPreset[] {
    const served = this.#servedNames()
    return [...this.#presets.values()].filter(
      (preset) => !isHidden(preset, served) && this.#isThere(preset.from),
    )
  }

  find(name: string): ModelPreset | undefined {
    const preset = this.#presets.get(untagged(name))
    if (preset === undefined || preset.name === preset.from) return preset
    return isHidden(preset, this.#servedNames()) ? undefined : preset
  }

  check(preset: ModelPreset): void {
    const name = untagged(preset.name)
    if (name === '' || name.length > longestName || this.#servedNames().has(name)) {
      throw expected('a name that no model of this server has')
    }
    this.#sizeOf(preset)
  }

  add(preset: ModelPreset): void {
    const name = untagged(preset.name)
    const size = this.#sizeOf(preset)
    this.remove(name)
    this.#presets.set(name, { ...preset, name })
    this.#sizes.set(name, size)
    this.#size += size
  }

  remove(name: string): void {
    const known = untagged(name)
    this.#size -= this.#sizes.get(known) ?? 0
    this.#sizes.delete(known)
    this.#presets.delete(known)
  }

  /** The characters of a preset. Throws `invalid_request` where there is no room for them. */
  #sizeOf(preset: ModelPreset): number {
    const name = untagged(preset.name)
    if (!this.#presets.has(name) && this.#presets.size >= most) {
      throw expected(`at most ${most} models`)
    }
    const size = JSON.stringify(preset).length
    if (this.#size - (this.#sizes.get(name) ?? 0) + size > mostText) {
      throw expected(`models that have ${mostText} characters together`)
    }
    return size
  }

  #isThere(name: string): boolean {
    try {
      this.models.nameOf(name)
      return true
    } catch {
      return false
    }
  }

  /** The names of the server's own models, with their aliases and adapters. */
  #servedNames(): ReadonlySet<string> {
    const { models } = this
    return new Set([
      ...models.list().flatMap((id) => [id, ...(models.status(id).aliases ?? [])]),
      ...(models.adapted?.() ?? []).flatMap(({ name, adapter }) =>
        adapter === undefined ? [] : [name, adapter],
      ),
    ])
  }
}

/** Whether the server has got another model of this name since. */
const isHidden = ({ name, from }: ModelPreset, served: ReadonlySet<string>): boolean =>
  name !== from && served.has(name)

const expected = (what: string): CllmError =>
  new CllmError('invalid_request', `model: expected ${what}`, {
    details: { field: 'model', expected: what },
  })

/** The same models, which presets can name too: a client that is opened by one carries it. */
export function withPresets(
  models: ClosableDirectory,
  given: readonly ModelPreset[] = [],
): ClosableDirectory {
  const presets = new PresetList(models, given)
  const find = (id: string | undefined) => (id === undefined ? undefined : presets.find(id))
  const modelOf = (id: string | undefined) => find(id)?.from ?? id
  return overriding<ClosableDirectory>(models, {
    presets,
    adapted: () => [
      ...(models.adapted?.() ?? []),
      ...presets
        .list()
        .filter(({ name, from }) => name !== from)
        .map(({ name, from }) => ({ name, model: from })),
    ],
    nameOf: (id) => models.nameOf(modelOf(id)),
    status(id) {
      const name = find(id)?.name
      const status = models.status(modelOf(id))
      return name === undefined ? status : { ...status, name }
    },
    open(id, options) {
      const preset = find(id)
      const client = models.open(preset?.from ?? id, options)
      return preset === undefined ? client : overriding(client, { preset })
    },
    unload: async (id) => await models.unload(modelOf(id) ?? id),
    defaultAdapters: (id) => models.defaultAdapters?.(modelOf(id)) ?? [],
  })
}
