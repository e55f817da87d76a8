import { inject, injectable } from 'tsyringe'
import type {
  AdapterChoice,
  AdapterInfo,
  AdapterSource,
  AppliedAdapter,
  LoadedAdapter,
  RequestAdapters,
} from '../../contracts/model/model-info.js'
import type { Backend } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { checkNumber, invalidField, unsupported } from '../input/check-request.js'
import { RunningSet, WaitingQueue } from '../requests/request-sets.js'
import { BetweenSteps, type LoopWork } from '../loop/between-steps.js'

/** The choice of no adapters. */
const noAdapters: RequestAdapters = { applied: [], key: '' }

interface Entry {
  readonly info: AdapterInfo
  readonly loaded: LoadedAdapter
}

interface Job {
  readonly source: AdapterInfo
  readonly resolve: (info: AdapterInfo) => void
  readonly reject: (error: CllmError) => void
}

/** The most adapters of one request. */
const mostChosen = 8
const mostScale = 1000

/** The {@link AdapterTable}: the adapters that requests can name. */
export const ADAPTERS = tokens.token<AdapterTable>('Adapters')

/**
 * The adapters that requests can name. They are loaded and disposed of between two steps; an unloaded adapter stays in
 * memory until the last request that uses it has ended.
 */
@injectable()
export class AdapterTable implements LoopWork {
  readonly #byName = new Map<string, Entry>()
  /** Unloaded adapters that are still in memory; no new request can name them. */
  #leaving: LoadedAdapter[] = []
  readonly #gone = new WeakSet<LoadedAdapter>()
  /** The number of holds on each adapter, besides its use by queued and running requests. */
  readonly #holds = new Map<LoadedAdapter, number>()
  #jobs: Job[] = []
  #nextId = 0

  /** @internal */
  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(RunningSet) private readonly running: RunningSet,
    @inject(BetweenSteps) private readonly between: BetweenSteps,
  ) {}

  /** All adapters, or undefined where there are none. */
  get known(): readonly AdapterInfo[] | undefined {
    return this.#byName.size > 0 ? this.list() : undefined
  }

  /** All adapters, ordered by their numbers. */
  list(): readonly AdapterInfo[] {
    const all = Array.from(this.#byName.values(), ({ info }) => info)
    return all.toSorted((a, b) => a.id - b.id)
  }

  /**
   * Loads an adapter before the next step.
   *
   * @throws CllmError `unsupported`, `invalid_request`, or what the backend throws
   */
  async load(source: AdapterSource): Promise<AdapterInfo> {
    const info = this.#checked(source)
    this.#nextId = Math.max(this.#nextId, info.id + 1)
    this.between.add(this)
    return await new Promise((resolve, reject) => {
      this.#jobs.push({ source: info, resolve, reject })
      this.between.notify()
    })
  }

  /** Unloads an adapter. Throws `model_not_found`. */
  unload(name: string): void {
    const { loaded } = this.#find('name', name)
    this.#byName.delete(name)
    this.#leaving.push(loaded)
    this.between.notify()
  }

  /**
   * The adapters of a request's choices.
   *
   * @throws CllmError `unsupported`, `invalid_request` or `model_not_found`
   */
  resolve(choices: readonly AdapterChoice[] = []): RequestAdapters {
    if (!Array.isArray(choices) || choices.length > mostChosen) {
      throw invalidField('adapters', `an array of at most ${mostChosen} adapters`, choices)
    }
    if (choices.length === 0) return noAdapters
    this.#ensureSupported()
    const applied = choices.map((choice: AdapterChoice) => {
      const { adapter, scale } = choice ?? {}
      const { info, loaded } = this.#find('adapters', adapter)
      checkNumber('adapters.scale', scale ?? info.scale, { min: -mostScale, max: mostScale })
      return { adapter: loaded, scale: scale ?? info.scale }
    })
    if (new Set(applied.map(({ adapter }) => adapter)).size < applied.length) {
      throw invalidField('adapters', 'each adapter once', choices)
    }
    const active = applied
      .filter(({ scale }) => scale !== 0)
      .toSorted((a, b) => (a.adapter.key < b.adapter.key ? -1 : 1))
    if (active.length === 0) return noAdapters
    const key = active.map(({ adapter, scale }) => `${adapter.key}*${scale}`).join('+')
    return { applied: active, key }
  }

  /** Throws `model_not_found` if one of them was unloaded and disposed of meanwhile. */
  ensureLoaded(applied: readonly AppliedAdapter[]): void {
    if (!applied.some(({ adapter }) => this.#gone.has(adapter))) return
    const message = 'adapters: one was unloaded before the request could be computed'
    throw new CllmError('model_not_found', message, { details: { field: 'adapters' } })
  }

  /** Keeps the adapters in memory until the returned function is called. */
  hold({ applied }: RequestAdapters): () => void {
    for (const { adapter } of applied) this.#count(adapter, 1)
    return () => {
      for (const { adapter } of applied) this.#count(adapter, -1)
      if (this.#leaving.length > 0) this.between.notify()
    }
  }

  /** Whether adapters can be loaded or disposed of before the next step. */
  get isDue(): boolean {
    return this.#jobs.length > 0 || this.#leaving.some((adapter) => !this.#isUsed(adapter))
  }

  /** Loads and disposes of adapters, never beside a pass of embeddings, which use adapters, too. */
  async settle(): Promise<void> {
    await this.between.alone(async () => {
      for (const adapter of this.#leaving.filter((one) => !this.#isUsed(one))) {
        this.#leaving = this.#leaving.filter((one) => one !== adapter)
        this.#gone.add(adapter)
        adapter.dispose()
      }
      for (const job of this.#jobs.splice(0)) await this.#do(job)
    })
  }

  /** Rejects waiting loads with this error. */
  close(error: CllmError): void {
    for (const { reject } of this.#jobs.splice(0)) reject(error)
  }

  async #do({ source, resolve, reject }: Job): Promise<void> {
    try {
      // Another adapter may have taken its name or number meanwhile.
      this.#ensureFree(source)
      const loaded = await this.#ensureSupported().load(source.path)
      this.#byName.set(source.name, { info: source, loaded })
      resolve(source)
    } catch (error) {
      reject(CllmError.from(error, 'backend_failed'))
    }
  }

  #checked({ name, path, scale = 1, id = this.#nextId }: AdapterSource): AdapterInfo {
    this.#ensureSupported()
    if (typeof name !== 'string' || !/^[\w.-]{1,64}$/.test(name)) {
      throw invalidField('name', 'up to 64 letters, digits, ".", "_" and "-"', name)
    }
    if (typeof path !== 'string' || path === '') throw invalidField('path', 'a file', path)
    checkNumber('scale', scale, { min: -mostScale, max: mostScale })
    checkNumber('id', id, { min: 0, integer: true })
    this.#ensureFree({ name, id })
    return { name, path, scale, id }
  }

  #ensureFree({ name, id }: Pick<AdapterInfo, 'name' | 'id'>): void {
    if (this.#byName.has(name)) {
      const message = `name: there is an adapter "${name}" already: unload it first`
      throw new CllmError('invalid_request', message, { details: { field: 'name' } })
    }
    if (this.list().some((other) => other.id === id)) throw invalidField('id', 'a free number', id)
  }

  #ensureSupported() {
    const { adapters } = this.backend
    if (adapters !== undefined) return adapters
    throw unsupported('adapters', 'lora', 'this backend cannot compute with adapters')
  }

  #find(field: string, adapter: unknown): Entry {
    const found =
      typeof adapter === 'string'
        ? this.#byName.get(adapter)
        : [...this.#byName.values()].find(({ info }) => info.id === adapter)
    if (found !== undefined) return found
    const known = this.list().map(({ id, name }) => `${name} (${id})`)
    const expected = known.length === 0 ? 'none, as no adapter is loaded' : known.join(', ')
    const received = (JSON.stringify(adapter) ?? 'nothing').slice(0, 100)
    const message = `${field}: expected ${expected}, instead got ${received}`
    throw new CllmError('model_not_found', message, { details: { field } })
  }

  #count(adapter: LoadedAdapter, by: number): void {
    const count = (this.#holds.get(adapter) ?? 0) + by
    if (count === 0) this.#holds.delete(adapter)
    else this.#holds.set(adapter, count)
  }

  #isUsed(adapter: LoadedAdapter): boolean {
    if (this.#holds.has(adapter)) return true
    for (const { request } of [...this.running.values(), ...this.waiting.all()]) {
      if (request.adapters.applied.some((one) => one.adapter === adapter)) return true
    }
    return false
  }
}
