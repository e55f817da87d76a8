import type { RestoreOptions, SaveOptions, SlotId, SlotStates } from '@cllm/core'
import type { LogitsContext } from '../native/native-context.js'
import type { SlotCells } from './slot-cells.js'

/** What {@link LlamaCppStates} works on. */
export interface StateParts {
  readonly context: Pick<LogitsContext, 'saveSequence' | 'restoreSequence'>
  readonly cells: SlotCells
  readonly cutsAnywhere: boolean
  /** Whether some layers keep all tokens, so that a checkpoint is not everything. */
  readonly checkpointNeedsPrefix: boolean
  readonly key: () => Promise<string>
}

/** Saves and restores slots with llama.cpp's sequence states. */
export class LlamaCppStates implements SlotStates {
  readonly cutsAnywhere: boolean
  readonly checkpointNeedsPrefix: boolean
  readonly #parts: StateParts
  #key: Promise<string> | undefined

  constructor(parts: StateParts) {
    this.#parts = parts
    this.cutsAnywhere = parts.cutsAnywhere
    this.checkpointNeedsPrefix = parts.checkpointNeedsPrefix
  }

  async key(): Promise<string> {
    this.#key ??= this.#parts.key()
    return await this.#key
  }

  canCut(slot: SlotId, length: number): boolean {
    return this.#parts.cells.canCut(slot, length)
  }

  async save(
    slot: SlotId,
    { partial = false, allocate = newMemory }: SaveOptions = {},
  ): Promise<Uint8Array | undefined> {
    const { context, cells } = this.#parts
    return cells.canRead(slot) ? await context.saveSequence(slot, partial, allocate) : undefined
  }

  async restore(
    slot: SlotId,
    state: Uint8Array,
    { tokens, partial = false }: RestoreOptions,
  ): Promise<boolean> {
    const { context, cells } = this.#parts
    const isWhole = !partial || !this.checkpointNeedsPrefix
    const fits = tokens > 0 && cells.canWrite(slot) && (isWhole || cells.length(slot) >= tokens)
    if (isWhole || !fits) cells.emptied(slot)
    // of a checkpoint the cells are there
    if (!fits || (isWhole && tokens > (cells.freeTokens ?? Infinity))) return false
    if (await context.restoreSequence(slot, state, partial)) {
      return cells.restored(slot, tokens, partial)
    }
    cells.emptied(slot)
    return false
  }
}

/** Of its own: V8 may move the bytes of other short arrays. */
const newMemory = (bytes: number): Uint8Array => new Uint8Array(new ArrayBuffer(bytes))
