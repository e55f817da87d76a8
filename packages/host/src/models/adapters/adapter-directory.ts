import {
  type AdapterChoice,
  type EngineClient,
  type GenerateRequest,
  type AdaptedModel,
  type ModelLoading,
  type ModelStatus,
  type OpenOptions,
  CllmError,
} from '@cllm/core'
import { overriding } from '../../client/overriding.js'
import type { ClosableDirectory } from '../../server/closable-directory.js'
import { AdapterSet } from './adapter-set.js'

/** Options of an {@link AdapterDirectory}. */
export interface AdapterDirectoryOptions {
  /** The adapters of models by their names; a model that is not there gets a set. Default: none at first. */
  readonly adapterSets?: Map<string, AdapterSet>
  /** The adapters of a model, in place of `adapterSets`. */
  readonly adapterSetOf?: (model: string) => AdapterSet
  /** Why adapters can be neither loaded, unloaded nor applied to all requests; default: they can. */
  readonly fixed?: string
}

interface Named {
  /** As the directory knows it. */
  readonly model: string | undefined
  readonly adapter?: string
}

/**
 * A directory whose models can be named with an adapter, as `model:adapter`, or by the adapter's name
 * alone where only one model has it. What is loaded and unloaded through it is noted in the sets of adapters.
 */
export class AdapterDirectory implements ClosableDirectory {
  readonly #models: ClosableDirectory
  readonly #adapterSetOf: (model: string) => AdapterSet
  readonly #fixed: string | undefined

  constructor(
    models: ClosableDirectory,
    { adapterSets = new Map(), adapterSetOf, fixed }: AdapterDirectoryOptions = {},
  ) {
    this.#models = models
    this.#fixed = fixed
    this.#adapterSetOf =
      adapterSetOf ??
      ((model) => {
        const adapters = adapterSets.get(model) ?? new AdapterSet()
        adapterSets.set(model, adapters)
        return adapters
      })
  }

  get loading(): ModelLoading | undefined {
    return this.#models.loading
  }

  list(): readonly string[] {
    return this.#models.list()
  }

  adapted(): readonly AdaptedModel[] {
    return this.list().flatMap((model) =>
      this.#adapterSetOf(model).sources.map(({ name }) => ({
        name: `${model}:${name}`,
        model,
        adapter: name,
      })),
    )
  }

  nameOf(id?: string): string {
    const { model, adapter } = this.#find(id)
    const name = this.#models.nameOf(model)
    return adapter === undefined ? name : `${name}:${adapter}`
  }

  open(id?: string, options?: OpenOptions): EngineClient {
    const { model, adapter } = this.#find(id)
    const client = this.#models.open(model, options)
    const adapters = this.#adapterSetOf(this.#models.nameOf(model))
    const submit = client.submit.bind(client)
    const chosen = adapter === undefined ? undefined : [{ adapter }]
    return overriding<EngineClient>(client, {
      submit: (request, more) => submit(withAdapters(request, adapters, chosen), more),
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
      embed: (input, options) => client.embed(input, withAdapters(options ?? {}, adapters, chosen)),
    })
  }

  status(id?: string): ModelStatus {
    const { model, adapter } = this.#find(id)
    const status = this.#models.status(model)
    return adapter === undefined ? status : { ...status, name: `${status.name}:${adapter}` }
  }

  defaultAdapters(id?: string): readonly AdapterChoice[] {
    return this.#adapterSetOf(this.#models.nameOf(this.#find(id).model)).defaults
  }

  setDefaultAdapters(choices: readonly AdapterChoice[], id?: string): void {
    this.#ensureLoads()
    const model = this.#models.nameOf(this.#find(id).model)
    const adapters = this.#adapterSetOf(model)
    const named = choices.map(({ adapter, scale }) => {
      const source = adapters.sources.find((one) => one.id === adapter || one.name === adapter)
      if (source !== undefined) return { adapter: source.name, scale: scale ?? source.scale }
      const message = `adapters: ${model} has no adapter ${JSON.stringify(adapter)}`
      throw new CllmError('model_not_found', message, { details: { field: 'adapters' } })
    })
    adapters.setDefaults(named.filter(({ scale }) => scale !== 0))
  }

  async unload(id: string): Promise<void> {
    await this.#models.unload(this.#models.nameOf(this.#find(id).model))
  }

  async drain(): Promise<void> {
    await this.#models.drain()
  }

  async close(): Promise<void> {
    await this.#models.close()
  }

  #find(id: string | undefined): Named {
    const models = this.list()
    if (id === undefined || models.includes(id)) return { model: id }
    const at = id.lastIndexOf(':')
    const adapter = id.slice(at + 1)
    const model = at > 0 ? this.#modelOf(id.slice(0, at)) : undefined
    if (model !== undefined && this.#adapterSetOf(model).has(adapter)) return { model, adapter }
    const [only, ...others] = models.filter((one) => this.#adapterSetOf(one).has(id))
    return only !== undefined && others.length === 0 ? { model: only, adapter: id } : { model: id }
  }

  #modelOf(id: string): string | undefined {
    try {
      return this.#models.nameOf(id)
    } catch {
      return undefined
    }
  }

  #ensureLoads(): void {
    if (this.#fixed !== undefined) throw new CllmError('unsupported', this.#fixed)
  }
}

function withAdapters<Request extends Pick<GenerateRequest, 'adapters'>>(
  request: Request,
  known: AdapterSet,
  chosen: readonly AdapterChoice[] | undefined,
): Request {
  const adapters = request.adapters ?? chosen ?? known.defaults
  return request.adapters === undefined && adapters.length > 0 ? { ...request, adapters } : request
}
