import type { BatchItem } from '@cllm/core'
import { roundShape, shapeKey, type StepShape } from './step-shape.js'

/** How many steps of a shape there were. */
export interface ShapeCount {
  readonly shape: StepShape
  readonly steps: number
}

/** What a {@link LoadRecord} was told. */
export interface Load {
  readonly counts: readonly ShapeCount[]
  /** Whether tokens were taken out of slots, which slots that share their cells cannot do. */
  readonly shifts: boolean
}

/** Counts the steps of a model by their shapes: what its load is like. */
export class LoadRecord {
  readonly #counts = new Map<string, { readonly shape: StepShape; steps: number }>()
  /** A step that computed prompts alone, and what it computed. */
  #prompts: StepShape | undefined
  #shifts: boolean

  /** @param earlier - what was counted before */
  constructor({ counts, shifts }: Load = { counts: [], shifts: false }) {
    this.#shifts = shifts
    for (const { shape, steps } of counts) this.#add(shape, steps)
  }

  /**
   * Notes a step. With cells for each slot, prompts are computed before decodes, each in a step of its
   * own; sharing cells they would be one, so such a pair counts as one.
   */
  took(batch: readonly BatchItem[]): void {
    let [sequences, held, chunk, behind] = [0, 0, 0, 0]
    for (const { tokens, position, drafts } of batch) {
      if (tokens.length === 1 || drafts !== undefined) {
        sequences += tokens.length
        held += position * tokens.length
      } else {
        chunk += tokens.length
        behind = Math.max(behind, position)
      }
    }
    const before = this.#prompts
    this.#prompts = undefined
    if (sequences === 0) {
      if (before !== undefined) this.#add(before, 1)
      this.#prompts = { sequences, context: behind, chunk }
      return
    }
    this.#add({ sequences, context: held / sequences, chunk: chunk + (before?.chunk ?? 0) }, 1)
  }

  /** Notes that tokens were taken out of a slot. */
  shifted(): void {
    this.#shifts = true
  }

  /** What was counted until now. */
  get load(): Load {
    const counts = Array.from(this.#counts.values(), (count) => ({ ...count }))
    return { counts, shifts: this.#shifts }
  }

  #add(step: StepShape, steps: number): void {
    const shape = roundShape(step)
    const key = shapeKey(shape)
    const known = this.#counts.get(key)
    if (known === undefined) this.#counts.set(key, { shape, steps })
    else known.steps += steps
  }
}
