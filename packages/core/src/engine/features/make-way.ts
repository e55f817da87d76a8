import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import { isOfBatch } from '../../contracts/engine/generate-request.js'
import type { EngineObserver, StepRecord } from '../../contracts/engine/engine-observer.js'
import type { ComputedPart, SequenceView } from '../../contracts/scheduling/scheduler-policy.js'
import * as tokens from '../../tokens.js'
import { KV_CACHE_MANAGER, type KVCacheManager } from '../engine-parts.js'
import { RequestFinisher } from '../requests/request-finisher.js'
import { RequestTable } from '../requests/request-table.js'

/**
 * Interrupts a step of batches when a client's request comes that could have a slot: nobody waits for what
 * the step computes, and a chunk of a prompt may take long.
 */
@injectable()
export class MakeWay implements EngineObserver {
  /** Of the step under way; none: between steps. */
  #parts: readonly ComputedPart[] = []
  #hasAsked = false
  /** Steps that were interrupted; one that ended before it heard of it is not. */
  interruptedSteps = 0

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(RequestFinisher) private readonly finisher: RequestFinisher,
  ) {}

  onStepStart(parts: readonly ComputedPart[]): void {
    this.#parts = parts
  }

  onTurn(_durationMs: number, step: StepRecord | undefined): void {
    if (this.#hasAsked && step === undefined) this.interruptedSteps++
    this.#hasAsked = false
    this.#parts = []
  }

  onQueued(request: SequenceView): void {
    if (this.#parts.length === 0 || isOfBatch(request)) return
    if (!this.#parts.every((part) => isOfBatch(part.request)) || !this.#hasRoom) return
    this.backend.interrupt?.()
    this.#hasAsked = true
    // Once is enough: what it was for is not asked again of a step that goes on.
    this.#parts = []
  }

  get #hasRoom(): boolean {
    const { running } = this.table
    return this.kv.freeSlots > 0 || running.list.some((sequence) => this.finisher.has(sequence))
  }
}
