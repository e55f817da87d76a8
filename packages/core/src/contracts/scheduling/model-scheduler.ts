import type { ModelState } from '../engine/engine-directory.js'

/** A request, or a call, that waits for its model. Times are milliseconds of the server's clock. */
export interface WaitingForModel {
  /** When it began to wait. */
  readonly since: number
  /** Higher is more urgent; 0 where nothing was said. */
  readonly priority: number
  /** When its first token is due; undefined: whenever. */
  readonly deadline: number | undefined
}

/** A model as a scheduler of models sees it. Times are milliseconds. */
export interface ModelView {
  readonly name: string
  readonly state: ModelState
  /** Whether it leaves as soon as it is unused, as was decided last or asked for: new requests for it wait. */
  readonly isDraining: boolean
  /** Pieces of work that hold it in memory. */
  readonly users: number
  /** When its last use began or ended. */
  readonly lastUsed: number
  /** What its loads take, lately; undefined before the first. */
  readonly loadMs: number | undefined
  /** What it would take to have what its slots held when it was last unused: to compute or to read it; 0: not known. */
  readonly lostMs: number
  /** Whether there is room for it beside those in memory, as far as is known. */
  readonly fits: boolean
  /** Who waits for it, the longest waiting first. */
  readonly waiting: readonly WaitingForModel[]
}

/** What is to be done. Names are of models that the scheduler was shown. */
export type ModelDecision =
  /** Load one that is unloaded, waited for, and fits. */
  | { readonly load: string }
  /** Unload a loaded one without users. */
  | { readonly unload: string }
  /** Keep new requests for a loaded one in use waiting. Holds until the next decision. */
  | { readonly drain: string }
  /** Nothing; it is asked again after this time at the latest. Infinity: at the next change. */
  | { readonly holdMs: number }

/**
 * Decides which models are in memory. It is asked at every change (a request comes or leaves, a use ends, a
 * model is loaded or gone) while a request waits for a model that is not in memory, and none is being loaded or
 * unloaded. Those who wait for a loaded model that is not drained are served at once.
 *
 * A decision is a pure function of its arguments: no clock, no chance, no state, so that the same code can be
 * simulated.
 */
export interface ModelScheduler {
  /**
   * What is to be done now.
   *
   * @param models - those in memory and those that are waited for; the longest waited for first
   * @param now - the server's clock
   */
  decide(models: readonly ModelView[], now: number): ModelDecision
}
