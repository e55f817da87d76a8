import type { RestoreOptions, SaveOptions, SlotId, SlotStates } from '@cllm/core'
import type { LogitsContext } from '../native/native-context.js'
import type { PlacedRun, SlotCells } from './slot-cells.js'

/** The parts of {@link LlamaCppStates}. */
interface StateParts {
  readonly context: Pick<LogitsContext, 'saveSequence' | 'restoreSequence'>
  readonly cells: SlotCells
  readonly cutsAnywhere: boolean
  /** Whether some layers keep all tokens, so that a checkpoint alone is incomplete. */
  readonly checkpointNeedsPrefix: boolean
  /** Whether images take positions of their own, which are then appended to each state. */
  readonly placesRuns: boolean
  readonly key: () => Promise<string>
}

/** Saves and restores slots with llama.cpp's sequence states. */
export class LlamaCppStates implements SlotStates {
  readonly cutsAnywhere: boolean
  readonly checkpointNeedsPrefix: boolean
  #key: Promise<string> | undefined

  constructor(private readonly parts: StateParts) {
    this.cutsAnywhere = parts.cutsAnywhere
    this.checkpointNeedsPrefix = parts.checkpointNeedsPrefix
  }

  async key(): Promise<string> {
    const key = (this.#key ??= this.parts.key())
    // Retried at the next call, as reading may have failed only because too many files were open.
    key.catch(() => (this.#key = undefined))
    return await key
  }

  canCut(slot: SlotId, length: number): boolean {
    return this.parts.cells.canCut(slot, length)
  }

  async save(
    slot: SlotId,
    { partial = false, allocate = newMemory }: SaveOptions = {},
  ): Promise<Uint8Array | undefined> {
    const { context, cells } = this.parts
    if (!cells.canRead(slot)) return undefined
    const places = this.parts.placesRuns ? placesOf(cells.runs(slot)) : none
    let memory: Uint8Array | undefined
    const state = await context.saveSequence(
      slot,
      partial,
      (bytes) => (memory = allocate(bytes + places.length)),
    )
    if (state === undefined || places.length === 0) return state
    memory!.set(places, state.length)
    return memory!.subarray(0, state.length + places.length)
  }

  async restore(
    slot: SlotId,
    state: Uint8Array,
    { tokens, partial = false }: RestoreOptions,
  ): Promise<boolean> {
    const { context, cells } = this.parts
    const isWhole = !partial || !this.checkpointNeedsPrefix
    const fits = tokens > 0 && cells.canWrite(slot) && (isWhole || cells.length(slot) >= tokens)
    if (isWhole || !fits) cells.emptied(slot)
    // a checkpoint needs no further cells
    if (!fits || (isWhole && tokens > (cells.freeTokens ?? Infinity))) return false
    const [own, runs] = this.parts.placesRuns ? partedFrom(state) : [state]
    if (await context.restoreSequence(slot, own, partial)) {
      return cells.restored(slot, tokens, partial, runs)
    }
    cells.emptied(slot)
    return false
  }
}

/** Allocates an array with a buffer of its own, as V8 may move the bytes of other short arrays. */
const newMemory = (bytes: number): Uint8Array => new Uint8Array(new ArrayBuffer(bytes))

const none = new Uint8Array(0)

/** Encodes runs as numbers of 32 bits: four for each run, then the number of runs. */
function placesOf(runs: readonly PlacedRun[]): Uint8Array {
  const numbers = runs.flatMap(({ start, length, positions, isGrid }) => [
    start,
    length,
    positions,
    Number(isGrid),
  ])
  return new Uint8Array(Int32Array.from([...numbers, runs.length]).buffer)
}

/** Splits a state into llama.cpp's part and the runs that {@link placesOf} encoded behind it. */
function partedFrom(state: Uint8Array): [Uint8Array, PlacedRun[]] {
  const view = new DataView(state.buffer, state.byteOffset, state.byteLength)
  const count = view.getInt32(state.length - 4, true)
  const end = state.length - 4 - 16 * count
  const runs = Array.from({ length: count }, (_, nth): PlacedRun => {
    const number = (index: number) => view.getInt32(end + 16 * nth + 4 * index, true)
    return { start: number(0), length: number(1), positions: number(2), isGrid: number(3) === 1 }
  })
  return [state.subarray(0, end), runs]
}
