import { inject, injectable } from 'tsyringe'
import type { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { AdapterTable } from '../adapters/adapter-table.js'
import { Embeddings } from '../embeddings.js'
import { SlotActions } from '../kv/states/slot-actions.js'
import type { KVCacheManager } from '../engine-parts.js'

/** What may only be done while no step is computed. */
@injectable()
export class BetweenSteps {
  /** @internal */
  constructor(
    @inject(tokens.KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    /** Saves, restores and erases slots. */
    @inject(SlotActions) readonly slots: SlotActions,
    /** Loads and unloads adapters. */
    @inject(AdapterTable) readonly adapters: AdapterTable,
    @inject(Embeddings) private readonly embeddings: Embeddings,
  ) {}

  /** Whether something is due. */
  get isDue(): boolean {
    return this.kv.isDue === true || this.slots.isDue || this.adapters.isDue
  }

  /** Does what is due. */
  async settle(): Promise<void> {
    if (this.kv.isDue === true) await this.kv.settle?.()
    if (this.slots.isDue) await this.slots.settle()
    if (!this.adapters.isDue) return
    // Passes of embeddings are computed with adapters, too.
    await this.embeddings.beforeStep()
    await this.embeddings.during(this.adapters.settle())
  }

  /** Resolves when nothing is on its way to a file any more. */
  async flush(): Promise<void> {
    await this.slots.flush()
  }

  /** Ends what waits with this error. */
  close(error: CllmError): void {
    this.slots.close(error)
    this.adapters.close(error)
  }
}
