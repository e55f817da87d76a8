import { inject, injectable } from 'tsyringe'
import type { Backend, SlotId } from '../../../contracts/model/backend.js'
import type { Clock } from '../../../contracts/clock.js'
import type { CachedState } from '../../../contracts/engine/cache-statistics.js'
import type {
  SlotAction,
  SlotActionResult,
  SlotFiles,
} from '../../../contracts/engine/slot-files.js'
import { CllmError } from '../../../errors/cllm-error.js'
import * as tokens from '../../../tokens.js'
import type { KVCacheManager, PrefixIndex, Slot } from '../../engine-parts.js'
import { WakeSignal } from '../../loop/wake-signal.js'
import { BlockChain } from '../block-chain.js'
import { KvPool } from '../kv-pool.js'
import { StateCache } from './state-cache.js'

interface Job {
  readonly slot: Slot
  readonly action: SlotAction
  readonly resolve: (result: SlotActionResult) => void
  readonly reject: (error: CllmError) => void
}

type Moved = Pick<SlotActionResult, 'tokens' | 'bytes'>

/** Saves, restores and erases slots for clients: between two steps, once the slot is idle. */
@injectable()
export class SlotActions {
  #jobs: Job[] = []
  #closed: CllmError | undefined

  /** @internal */
  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(tokens.PREFIX_INDEX) private readonly index: PrefixIndex,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.SLOT_FILES) private readonly place: { readonly files?: SlotFiles },
    @inject(KvPool) private readonly pool: KvPool,
    @inject(StateCache) private readonly states: StateCache,
    @inject(WakeSignal) private readonly wake: WakeSignal,
  ) {}

  /**
   * Waits until the slot is idle, and then does it.
   *
   * @throws CllmError `invalid_request`, `unsupported` or `backend_failed`
   */
  async run(id: SlotId, action: SlotAction): Promise<SlotActionResult> {
    const slot = this.kv.slots[id]
    if (slot === undefined) {
      const message = `expected a slot from 0 to ${this.kv.slots.length - 1}, got ${id}`
      throw new CllmError('invalid_request', message, { details: { field: 'id' } })
    }
    return await new Promise((resolve, reject) => {
      if (this.#closed !== undefined) throw this.#closed
      this.#jobs.push({ slot, action, resolve, reject })
      this.wake.notify()
    })
  }

  /** The saved states, the latest used last; `drop` drops them. */
  cache(action: 'list' | 'drop'): readonly CachedState[] {
    if (action !== 'list' && action !== 'drop') {
      throw new CllmError('invalid_request', 'action: expected list or drop')
    }
    const states = this.states.list()
    if (action === 'drop') this.states.drop()
    return states
  }

  /** Whether something can be done now. */
  get isDue(): boolean {
    return this.#jobs.some(isDue)
  }

  /** Does what can be done now. */
  async settle(): Promise<void> {
    const due = this.#jobs.filter(isDue)
    this.#jobs = this.#jobs.filter((job) => !due.includes(job))
    await this.#doAll(due)
  }

  /** Ends what waits with this error. */
  close(error: CllmError): void {
    this.#closed = error
    for (const { reject } of this.#jobs.splice(0)) reject(error)
  }

  async #doAll(jobs: readonly Job[]): Promise<void> {
    for (const { slot, action, resolve, reject } of jobs) {
      const began = this.clock.now()
      try {
        const moved = await this.#do(slot, action)
        resolve({ slot: slot.id, ...moved, ms: this.clock.now() - began })
      } catch (error) {
        reject(CllmError.from(error, 'backend_failed'))
      }
    }
  }

  async #do(slot: Slot, action: SlotAction): Promise<Moved> {
    if (action.action === 'erase') {
      const { length } = slot
      this.#empty(slot)
      return { tokens: length, bytes: 0 }
    }
    const { filename } = action
    return action.action === 'save'
      ? await this.#save(slot, filename)
      : await this.#restore(slot, filename)
  }

  async #save(slot: Slot, filename: string): Promise<Moved> {
    const { states, files } = this.#means()
    const { chain, length } = slot
    if (chain === undefined || length === 0) {
      throw new CllmError('invalid_request', `slot ${slot.id} holds nothing that may be saved`)
    }
    const data = await states.save(slot.id)
    if (data === undefined) {
      throw new CllmError('backend_failed', `slot ${slot.id} cannot be saved now`)
    }
    const ids = chain.tokens.slice(0, length)
    const head = { key: await states.key(), scope: chain.scope, partial: false, tokens: ids }
    return { tokens: length, bytes: await files.write(filename, head, data) }
  }

  async #restore(slot: Slot, filename: string): Promise<Moved> {
    const { states, files } = this.#means()
    const { head, data, bytes } = await files.read(filename)
    const isOurs = head.key === (await states.key()) && !head.partial
    const { length } = head.tokens
    if (!isOurs || length > this.backend.limits.contextSize) {
      const message = `${filename} is of another model, other settings or a larger slot`
      throw new CllmError('invalid_request', message, { details: { field: 'filename' } })
    }
    this.#empty(slot)
    await this.pool.fits(length)
    if (!(await states.restore(slot.id, data, { tokens: length }))) {
      throw new CllmError('backend_failed', `${filename} cannot be restored`)
    }
    slot.length = length
    slot.usedAt = this.clock.now()
    this.index.keep(slot, { chain: new BlockChain(head.tokens, head.scope) })
    return { tokens: length, bytes }
  }

  #empty(slot: Slot): void {
    this.index.drop(slot)
    slot.length = 0
    this.backend.release(slot.id)
  }

  #means() {
    const { states } = this.backend
    const { files } = this.place
    if (states === undefined || files === undefined) {
      const message =
        files === undefined
          ? 'this server does not save slots: it was started without --slot-save-path'
          : 'this backend cannot save slots'
      throw new CllmError('unsupported', message)
    }
    return { states, files }
  }
}

const isDue = ({ slot }: Job): boolean => slot.owner === undefined
