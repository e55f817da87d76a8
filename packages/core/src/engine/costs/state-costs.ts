import { LinearFit } from './linear-fit.js'

const megabyte = 1e6
/** After this many times that restoring was passed over, its cost counts as half of what it was. */
const loadsUntilHalf = 32
/** Milliseconds of a call, and of a megabyte. */
const timePrior = [0.2, 0.4]
/** Megabytes of a state without tokens, and of each token: scaled by the first one. */
const sizePrior = [0.001, 0.03]

/** Learns what it costs to save the state of a slot and to restore it, in milliseconds. */
export class StateCosts {
  readonly #save = timeFit()
  readonly #load = timeFit()
  readonly #size = new LinearFit({ prior: sizePrior, memory: 0.9, outlier: 3 })
  #trust = 1

  /** Milliseconds that saving this many bytes takes. */
  saveMs(bytes: number): number {
    return this.#save.predict([1, bytes / megabyte])
  }

  /** Milliseconds that restoring this many bytes takes. */
  loadMs(bytes: number): number {
    return this.#trust * this.#load.predict([1, bytes / megabyte])
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
    this.#trust = 1
    this.#load.observe([1, bytes / megabyte], ms)
  }

  /** Computing seemed cheaper than restoring. An estimate that is never tried again never changes. */
  onPassedOver(): void {
    this.#trust *= 0.5 ** (1 / loadsUntilHalf)
  }
}

/** It begins with a guess that counts as one observation: a first one on a busy machine is too long. */
function timeFit(): LinearFit {
  const fit = new LinearFit({ prior: timePrior, memory: 0.9, outlier: 3 })
  fit.observe([1, 10], timePrior[0]! + 10 * timePrior[1]!)
  return fit
}
