import {
  type AdapterChoice,
  type EngineClient,
  type GenerateRequest,
  type AdaptedModel,
  type ModelLoading,
  type ModelPreset,
  type ModelStatus,
  type OpenOptions,
  attempt,
  CllmError,
  entryOf,
  type AdapterInfo,
  type AdapterSource,
} from '@cllm/core'
import { overriding } from '../client/wrapping.js'
import type { ClosableDirectory } from '../server/static-directory.js'
import { PresetList, type ServedNames } from './presets.js'

/** Options of {@link NamedModels}. */
export interface NamedModelsOptions {
  /** The adapters of a model. Default: none has any. */
  readonly adapterSetOf?: (model: string) => AdapterSet
  /** Why adapters can be neither loaded, unloaded nor applied to all requests; default: they can. */
  readonly fixed?: string
}

/** What a name stands for. */
interface Named {
  /** The model's name in the directory; undefined: the default model. */
  readonly model: string | undefined
  readonly adapter?: string
  readonly preset?: ModelPreset
}

const noAdapters = 'This server applies no adapters to all requests'

/**
 * Adds names to a directory: those of presets, `model:adapter` for a model with an adapter, and the adapter's name
 * alone if only one model has it. Keeps the sets of adapters up to date when adapters are loaded and unloaded.
 */
export class NamedModels implements ClosableDirectory, ServedNames {
  readonly presets = new PresetList(this)
  readonly loading: ModelLoading | undefined

  constructor(
    private readonly models: ClosableDirectory,
    private readonly options: NamedModelsOptions = {},
  ) {
    this.loading = models.loading
  }

  list(): readonly string[] {
    return this.models.list()
  }

  adapted(): readonly AdaptedModel[] {
    const presets = this.presets.list().filter(({ name, from }) => name !== from)
    return [...this.#adapted(), ...presets.map(({ name, from }) => ({ name, model: from }))]
  }

  nameOf(id?: string): string {
    const { model, adapter } = this.#find(id)
    const name = this.models.nameOf(model)
    return adapter === undefined ? name : `${name}:${adapter}`
  }

  open(id?: string, options?: OpenOptions): EngineClient {
    const { model, adapter, preset } = this.#find(id)
    const client = this.models.open(model, options)
    const own = preset === undefined ? {} : { preset }
    const adapters = this.options.adapterSetOf?.(this.models.nameOf(model))
    if (adapters === undefined) return preset === undefined ? client : overriding(client, own)
    const adapted = <R extends Pick<GenerateRequest, 'adapters'>>(request: R): R => {
      if (request.adapters !== undefined) return request
      const chosen = adapter === undefined ? adapters.defaults : [{ adapter }]
      return chosen.length > 0 ? { ...request, adapters: chosen } : request
    }
    return overriding<EngineClient>(client, {
      ...own,
      submit: (request, more) => client.submit(adapted(request), more),
      loadAdapter: async (source) => {
        this.#ensureLoads()
        const info = await client.loadAdapter(source)
        adapters.add(info)
        return info
      },
      unloadAdapter: async (name) => {
        this.#ensureLoads()
        await client.unloadAdapter(name)
        adapters.delete(name)
      },
      embed: async (input, given) => await client.embed(input, adapted(given ?? {})),
    })
  }

  status(id?: string): ModelStatus {
    const { model, adapter, preset } = this.#find(id)
    const status = this.models.status(model)
    if (preset !== undefined) return { ...status, name: preset.name }
    return adapter === undefined ? status : { ...status, name: `${status.name}:${adapter}` }
  }

  defaultAdapters(id?: string): readonly AdapterChoice[] {
    const model = this.#modelOf(id)
    const adapters = this.options.adapterSetOf?.(model)
    return adapters?.defaults ?? this.models.defaultAdapters?.(model) ?? []
  }

  setDefaultAdapters(choices: readonly AdapterChoice[], id?: string): void {
    this.#ensureLoads()
    const model = this.#modelOf(id)
    const adapters = this.options.adapterSetOf?.(model)
    if (adapters === undefined) {
      if (this.models.setDefaultAdapters === undefined)
        throw new CllmError('unsupported', noAdapters)
      return this.models.setDefaultAdapters(choices, model)
    }
    const named = choices.map(({ adapter, scale }) => {
      const source = adapters.sources.find((one) => one.id === adapter || one.name === adapter)
      if (source !== undefined) return { adapter: source.name, scale: scale ?? source.scale }
      const message = `adapters: ${model} has no adapter ${JSON.stringify(adapter)}`
      throw new CllmError('model_not_found', message, { details: { field: 'adapters' } })
    })
    adapters.setDefaults(named.filter(({ scale }) => scale !== 0))
  }

  async unload(id: string): Promise<void> {
    await this.models.unload(this.#modelOf(id))
  }

  async drain(): Promise<void> {
    await this.models.drain()
  }

  async close(): Promise<void> {
    await this.models.close()
  }

  isThere(name: string): boolean {
    return this.#known(this.#withAdapter(name).model) !== undefined
  }

  servedNames(): ReadonlySet<string> {
    return new Set([
      ...this.list().flatMap((id) => [id, ...(this.models.status(id).aliases ?? [])]),
      ...this.#adapted().flatMap(({ name, adapter = name }) => [name, adapter]),
    ])
  }

  #adapted(): AdaptedModel[] {
    const own = this.list().flatMap((model) =>
      (this.options.adapterSetOf?.(model).sources ?? []).map(({ name: adapter }) => ({
        name: `${model}:${adapter}`,
        model,
        adapter,
      })),
    )
    return [...(this.models.adapted?.() ?? []), ...own]
  }

  #modelOf(id: string | undefined): string {
    return this.models.nameOf(this.#find(id).model)
  }

  #find(id: string | undefined): Named {
    const preset = id === undefined ? undefined : this.presets.find(id)
    const name = preset?.from ?? id
    const isModel = name === undefined || this.models.list().includes(name)
    const named = isModel ? { model: name } : this.#withAdapter(name)
    return preset === undefined ? named : { ...named, preset }
  }

  #withAdapter(id: string): Named {
    const { adapterSetOf } = this.options
    if (adapterSetOf === undefined) return { model: id }
    const at = id.lastIndexOf(':')
    const adapter = id.slice(at + 1)
    const model = at > 0 ? this.#known(id.slice(0, at)) : undefined
    if (model !== undefined && adapterSetOf(model).has(adapter)) return { model, adapter }
    const [only, ...others] = this.list().filter((one) => adapterSetOf(one).has(id))
    return only !== undefined && others.length === 0 ? { model: only, adapter: id } : { model: id }
  }

  #known(id: string | undefined): string | undefined {
    return attempt(() => this.models.nameOf(id))
  }

  #ensureLoads(): void {
    const { fixed } = this.options
    if (fixed !== undefined) throw new CllmError('unsupported', fixed)
  }
}

/** Finds the adapters of a model by its name; a model without a set gets an empty one. */
export function adapterSets(known = new Map<string, AdapterSet>()): (model: string) => AdapterSet {
  return (model) => entryOf(known, model, () => new AdapterSet())
}

/**
 * The adapters that each new engine of a model gets: the configured ones, and those that were loaded and not unloaded
 * since.
 */
export class AdapterSet {
  readonly #sources = new Map<string, AdapterInfo>()
  #wanted: readonly AdapterChoice[] = []
  /** The adapters of a request that names none, neither in its fields nor with its model. */
  defaults: readonly AdapterChoice[] = []

  /** @param configured - an adapter without a number gets that of its place */
  constructor(configured: Iterable<AdapterSource> = []) {
    for (const { id = this.#sources.size, scale = 1, ...source } of configured) {
      this.add({ id, scale, ...source })
    }
  }

  /** In the order of their numbers. */
  get sources(): readonly AdapterInfo[] {
    return [...this.#sources.values()].toSorted((a, b) => a.id - b.id)
  }

  /** Whether there is an adapter of this name. */
  has(name: string): boolean {
    return this.#sources.has(name)
  }

  /** Notes that an adapter was loaded. */
  add(info: AdapterInfo): void {
    this.#sources.set(info.name, info)
    this.setDefaults(this.#wanted)
  }

  /** Notes that an adapter was unloaded. */
  delete(name: string): void {
    this.#sources.delete(name)
    this.setDefaults(this.#wanted)
  }

  /** Sets {@link defaults}, by the adapters' names. An adapter that is not loaded counts once it is. */
  setDefaults(choices: readonly AdapterChoice[]): void {
    this.#wanted = choices
    this.defaults = choices.filter(({ adapter }) => this.#sources.has(String(adapter)))
  }
}
