import { type ModelPreset, type ModelPresets, CllmError } from '@cllm/core'

/** Most characters of a name. */
const longestName = 256
/** Most presets at a time. */
const most = 1000
/** Most characters of all presets together, as JSON. */
const mostText = 16 * 1024 * 1024

/** A name without the tag that Ollama's clients add. */
const untagged = (name: string): string => name.replace(/:latest$/, '')

/** The names that presets may not take. */
export interface ServedNames {
  /** Whether a name stands for a model, whatever presets there are. */
  isThere(name: string): boolean
  /** The names of the server's own models, with their aliases and adapters. */
  servedNames(): ReadonlySet<string>
}

/** The presets of a server, with the characters that each takes. */
export class PresetList implements ModelPresets {
  readonly #presets = new Map<string, { readonly preset: ModelPreset; readonly size: number }>()

  constructor(private readonly models: ServedNames) {}

  list(): readonly ModelPreset[] {
    const served = this.models.servedNames()
    return [...this.#presets.values()].flatMap(({ preset }) => {
      const { name, from } = preset
      const isHidden = name !== from && served.has(name)
      return isHidden || !this.models.isThere(from) ? [] : [preset]
    })
  }

  find(name: string): ModelPreset | undefined {
    const preset = this.#presets.get(untagged(name))?.preset
    if (preset === undefined || preset.name === preset.from) return preset
    return this.models.servedNames().has(preset.name) ? undefined : preset
  }

  check(preset: ModelPreset): void {
    const name = untagged(preset.name)
    if (name === '' || name.length > longestName || this.models.servedNames().has(name)) {
      throw expected('a name that no model of this server has')
    }
    this.#sizeOf(name, preset)
  }

  add(preset: ModelPreset): void {
    const name = untagged(preset.name)
    const size = this.#sizeOf(name, preset)
    this.#presets.delete(name)
    this.#presets.set(name, { preset: { ...preset, name }, size })
  }

  remove(name: string): void {
    this.#presets.delete(untagged(name))
  }

  /** The number of characters of a preset. Throws `invalid_request` if a limit does not allow it. */
  #sizeOf(name: string, preset: ModelPreset): number {
    if (!this.#presets.has(name) && this.#presets.size >= most) {
      throw expected(`at most ${most} models`)
    }
    const size = JSON.stringify(preset).length
    let sum = size
    for (const [other, known] of this.#presets) if (other !== name) sum += known.size
    if (sum > mostText) throw expected(`models that have ${mostText} characters together`)
    return size
  }
}

const expected = (what: string): CllmError =>
  new CllmError('invalid_request', `model: expected ${what}`, {
    details: { field: 'model', expected: what },
  })
