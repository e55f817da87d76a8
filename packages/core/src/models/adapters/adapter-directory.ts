import type { AdapterChoice } from '../../contracts/model/adapter.js'
import type { EngineClient } from '../../contracts/engine/engine-client.js'
import type { GenerateRequest } from '../../contracts/engine/generate-request.js'
import type {
  AdaptedModel,
  ModelStatus,
  OpenOptions,
} from '../../contracts/engine/engine-directory.js'
import { CllmError } from '../../errors/cllm-error.js'
import { overriding } from '../../client/overriding.js'
import type { ClosableDirectory } from '../../server/closable-directory.js'
import { AdapterBook } from './adapter-book.js'

/** Options of an {@link AdapterDirectory}. */
export interface AdapterDirectoryOptions {
  /** The book of a model. Default: one that is empty at first. */
  readonly bookOf?: (model: string) => AdapterBook
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
 * alone where only one model has it. What is loaded and unloaded through it is written into the books.
 */
export class AdapterDirectory implements ClosableDirectory {
  readonly #models: ClosableDirectory
  readonly #bookOf: (model: string) => AdapterBook
  readonly #fixed: string | undefined

  constructor(
    models: ClosableDirectory,
    { bookOf = booksByName(), fixed }: AdapterDirectoryOptions = {},
  ) {
    this.#models = models
    this.#bookOf = bookOf
    this.#fixed = fixed
  }

  list(): readonly string[] {
    return this.#models.list()
  }

  adapted(): readonly AdaptedModel[] {
    return this.list().flatMap((model) =>
      this.#bookOf(model).sources.map(({ name }) => ({
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
    const book = this.#bookOf(this.#models.nameOf(model))
    const submit = client.submit.bind(client)
    const chosen = adapter === undefined ? undefined : [{ adapter }]
    return overriding<EngineClient>(client, {
      submit: (request, more) => submit(withAdapters(request, book, chosen), more),
      loadAdapter: async (source) => {
        this.#ensureLoads()
        const info = await client.loadAdapter(source)
        book.add(info)
        return info
      },
      unloadAdapter: async (name) => {
        this.#ensureLoads()
        await client.unloadAdapter(name)
        book.delete(name)
      },
      embed: (input, options) => client.embed(input, withAdapters(options ?? {}, book, chosen)),
    })
  }

  status(id?: string): ModelStatus {
    const { model, adapter } = this.#find(id)
    const status = this.#models.status(model)
    return adapter === undefined ? status : { ...status, name: `${status.name}:${adapter}` }
  }

  defaultAdapters(id?: string): readonly AdapterChoice[] {
    return this.#bookOf(this.#models.nameOf(this.#find(id).model)).defaults
  }

  setDefaultAdapters(choices: readonly AdapterChoice[], id?: string): void {
    this.#ensureLoads()
    const model = this.#models.nameOf(this.#find(id).model)
    const book = this.#bookOf(model)
    const named = choices.map(({ adapter, scale }) => {
      const source = book.sources.find((one) => one.id === adapter || one.name === adapter)
      if (source !== undefined) return { adapter: source.name, scale: scale ?? source.scale }
      const message = `adapters: ${model} has no adapter ${JSON.stringify(adapter)}`
      throw new CllmError('model_not_found', message, { details: { field: 'adapters' } })
    })
    book.setDefaults(named.filter(({ scale }) => scale !== 0))
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
    if (model !== undefined && this.#bookOf(model).has(adapter)) return { model, adapter }
    const [only, ...others] = models.filter((one) => this.#bookOf(one).has(id))
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

function booksByName(): (model: string) => AdapterBook {
  const books = new Map<string, AdapterBook>()
  return (model) => {
    const book = books.get(model) ?? new AdapterBook()
    books.set(model, book)
    return book
  }
}

function withAdapters<Request extends Pick<GenerateRequest, 'adapters'>>(
  request: Request,
  book: AdapterBook,
  chosen: readonly AdapterChoice[] | undefined,
): Request {
  const adapters = request.adapters ?? chosen ?? book.defaults
  return request.adapters === undefined && adapters.length > 0 ? { ...request, adapters } : request
}
