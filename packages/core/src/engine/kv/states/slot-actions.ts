import { inject, injectable } from 'tsyringe'
import { release } from '../../backend-calls.js'
import type { Backend, SlotId } from '../../../contracts/model/backend.js'
import type { Clock } from '../../../contracts/services.js'
import type { CachedState } from '../../../contracts/engine/engine-statistics.js'
import type { SlotAction, SlotActionResult, SlotFiles } from '../../../contracts/model/states.js'
import { CllmError } from '../../../errors/cllm-error.js'
import { invalidField } from '../../input/check-request.js'
import * as tokens from '../../../tokens.js'
import {
  KV_CACHE_MANAGER,
  PREFIX_INDEX,
  type KVCacheManager,
  type PrefixIndex,
  type Slot,
} from '../../engine-parts.js'
import { BetweenSteps, type LoopWork } from '../../loop/between-steps.js'
import { BlockChain } from '../block-chain.js'
import { StateCache } from './state-cache.js'

/** A client's call that waits to be done. */
interface Job {
  readonly slot: Slot
  readonly action: SlotAction
  readonly resolve: (result: SlotActionResult) => void
  readonly reject: (error: CllmError) => void
}

type SlotContent = Awaited<ReturnType<SlotFiles['read']>>

/** The restore job whose file is being read, or was read. */
interface Reading {
  readonly job: Job
  /** The content of its file and the milliseconds that reading took; undefined while it is being read. */
  file?: SlotContent & { readonly ms: number }
}

/** The result of a job; `bytes` is a promise while the file is still being written. */
interface Moved {
  readonly tokens: number
  readonly bytes: number | Promise<number>
}

/** The `SlotActions`: saves, restores and erases slots. */
export const SLOT_ACTIONS = tokens.token<SlotActions>('SlotActions')

/**
 * Saves, restores and erases slots for clients: between two steps, once the slot is idle. Files are read and written
 * beside the steps and one at a time, since each may be as large as all free memory.
 */
@injectable()
export class SlotActions implements LoopWork {
  /** In the order in which they were asked for. */
  readonly #jobs: Job[] = []
  /** Resolves when the file of the latest save is written. */
  #writing: Promise<void> | undefined
  #reading: Reading | undefined

  /** @internal */
  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(PREFIX_INDEX) private readonly index: PrefixIndex,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.SLOT_FILES) private readonly place: { readonly files?: SlotFiles },
    @inject(StateCache) private readonly states: StateCache,
    @inject(BetweenSteps) private readonly between: BetweenSteps,
  ) {}

  /**
   * Does the action once the slot is idle.
   *
   * @throws CllmError `invalid_request`, `unsupported` or `backend_failed`
   */
  async run(id: SlotId, action: SlotAction): Promise<SlotActionResult> {
    const slot = this.kv.slots[id]
    if (slot === undefined) {
      throw invalidField('id', `a slot from 0 to ${this.kv.slots.length - 1}`, id)
    }
    this.between.add(this)
    return await new Promise((resolve, reject) => {
      this.#jobs.push({ slot, action, resolve, reject })
      this.between.notify()
    })
  }

  /** Lists the saved states, the most recently used last; `drop` then drops them. */
  cache(action: 'list' | 'drop'): readonly CachedState[] {
    if (action !== 'list' && action !== 'drop') {
      throw new CllmError('invalid_request', 'action: expected list or drop')
    }
    const states = this.states.list()
    if (action === 'drop') this.states.drop()
    return states
  }

  /** Whether a job can be done now. */
  get isDue(): boolean {
    return this.#nextDue() !== undefined
  }

  /** Does the jobs that can be done now. */
  async settle(): Promise<void> {
    for (let job = this.#nextDue(); job !== undefined; job = this.#nextDue()) {
      const file = this.#reading?.job === job ? this.#reading.file : undefined
      if (job.action.action === 'restore' && file === undefined) {
        void this.#read(job, job.action.filename)
        continue
      }
      this.#leave(job)
      const began = this.clock.now() - (file?.ms ?? 0)
      try {
        const { tokens, bytes } = await this.#do(job, file)
        if (typeof bytes === 'number') this.#resolve(job, tokens, bytes, began)
        else this.#writing = this.#finish(job, tokens, bytes, began)
      } catch (error) {
        job.reject(CllmError.from(error, 'backend_failed'))
      }
    }
  }

  /** Resolves when the last file is written. */
  async onClose(): Promise<void> {
    await this.#writing
  }

  /** Rejects the waiting jobs with this error. */
  close(error: CllmError): void {
    this.#reading = undefined
    for (const { reject } of this.#jobs.splice(0)) reject(error)
  }

  /** The next job that can be done: at most one state at a time is being written, and one is being read or restored. */
  #nextDue(): Job | undefined {
    return this.#jobs.find((job) => {
      const { slot, action } = job
      if (slot.owner !== undefined) return false
      if (action.action === 'save') return this.#writing === undefined
      if (action.action === 'erase' || this.#reading === undefined) return true
      const { job: read, file } = this.#reading
      if (file === undefined) return false
      // If the slot of the job that was read is busy again, another job goes first, and that file is read again later.
      return read === job || read.slot.owner !== undefined
    })
  }

  #leave(job: Job): void {
    const place = this.#jobs.indexOf(job)
    if (place >= 0) this.#jobs.splice(place, 1)
    if (this.#reading?.job === job) this.#reading = undefined
  }

  async #read(job: Job, filename: string): Promise<void> {
    const reading: Reading = { job }
    this.#reading = reading
    const began = this.clock.now()
    try {
      const content = await this.#content(filename)
      reading.file = { ...content, ms: this.clock.now() - began }
    } catch (error) {
      this.#leave(job)
      job.reject(CllmError.from(error, 'backend_failed'))
    }
    this.between.notify()
  }

  #resolve({ slot, resolve }: Job, tokens: number, bytes: number, began: number): void {
    resolve({ slot: slot.id, tokens, bytes, ms: this.clock.now() - began })
  }

  async #finish(job: Job, tokens: number, bytes: Promise<number>, began: number): Promise<void> {
    try {
      this.#resolve(job, tokens, await bytes, began)
    } catch (error) {
      job.reject(CllmError.from(error, 'backend_failed'))
    }
    this.#writing = undefined
    this.between.notify()
  }

  async #do({ slot, action }: Job, file: Reading['file']): Promise<Moved> {
    if (file !== undefined) return await this.#restore(slot, file)
    if (action.action === 'save') return await this.#save(slot, action.filename)
    const { length } = slot
    this.#empty(slot)
    return { tokens: length, bytes: 0 }
  }

  async #save(slot: Slot, filename: string): Promise<Moved> {
    const { states, files } = this.#means()
    const { chain, length } = slot
    if (chain === undefined || length === 0) {
      throw new CllmError('invalid_request', `slot ${slot.id} holds nothing that may be saved`)
    }
    const data = await states.save(slot.id, { allocate: sharedMemory })
    if (data === undefined) {
      throw new CllmError('backend_failed', `slot ${slot.id} cannot be saved now`)
    }
    const ids = chain.tokens.slice(0, length)
    const write = async () => {
      const head = { key: await states.key(), scope: chain.scope, partial: false, tokens: ids }
      return await files.write(filename, head, data)
    }
    return { tokens: length, bytes: write() }
  }

  /**
   * Reads the file of a restore.
   * @throws `invalid_request` for a file of another model, other settings or a larger slot
   */
  async #content(filename: string): Promise<SlotContent> {
    const { states, files } = this.#means()
    const key = await states.key()
    const { contextSize } = this.backend.limits
    return await files.read(filename, (head) => {
      if (head.key === key && !head.partial && head.tokens.length <= contextSize) return
      const message = `${filename} is of another model, other settings or a larger slot`
      throw new CllmError('invalid_request', message, { details: { field: 'filename' } })
    })
  }

  async #restore(slot: Slot, { head, data, bytes }: SlotContent): Promise<Moved> {
    const { length } = head.tokens
    this.#empty(slot)
    await this.kv.fits(length)
    if ((await this.backend.states?.restore(slot.id, data, { tokens: length })) !== true) {
      throw new CllmError('backend_failed', `slot ${slot.id} cannot be restored`)
    }
    slot.length = length
    slot.usedAt = this.clock.now()
    this.index.keep(slot, { chain: new BlockChain(head.tokens, head.scope) })
    return { tokens: length, bytes }
  }

  #empty(slot: Slot): void {
    this.index.drop(slot)
    slot.program = undefined
    slot.length = 0
    release(this.backend, slot.id)
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

/** Memory that a thread can read without a copy. */
const sharedMemory = (bytes: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(bytes))
