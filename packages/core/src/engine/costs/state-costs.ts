import { LinearFit } from './linear-fit.js'

const megabyte = 1e6
/** Milliseconds of a call, and of a megabyte. Scaled by the first one. */
const timePrior = [0.2, 0.4]
/** Megabytes of a state without tokens, and of each token. Scaled by the first one. */
const sizePrior = [0.001, 0.03]

/** Learns what it costs to save the state of a slot and to restore it, in milliseconds. */
export class StateCosts {
  readonly #save = fit(timePrior)
  readonly #load = fit(timePrior)
  readonly #size = fit(sizePrior)

  /** Milliseconds that saving this many bytes takes. */
  saveMs(bytes: number): number {
    return this.#save.predict([1, bytes / megabyte])
  }

  /** Milliseconds that restoring this many bytes takes. */
  loadMs(bytes: number): number {
    return this.#load.predict([1, bytes / megabyte])
  }

  /** Bytes that the state of a slot with this many tokens has. */
  bytesOf(tokens: number): number {
    return this.#size.predict([1, tokens]) * megabyte
  }

  /** The state of a slot was saved. */
  onSaved(tokens: number, bytes: number, ms: number): void {
    this.#size.observe([1, tokens], bytes / megabyte)
    this.#save.observe([1, bytes / megabyte], ms)
  }

  /** A state was restored. */
  onLoaded(bytes: number, ms: number): void {
    this.#load.observe([1, bytes / megabyte], ms)
  }
}

const fit = (prior: readonly number[]): LinearFit =>
  new LinearFit({ prior, memory: 0.9, outlier: 3 })
