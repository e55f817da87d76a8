import type { Route } from '../../routes/route.js'
import type { ProtocolDefaults } from '../../request/build-request.js'

/** What the handlers of the native protocol share. */
export interface NativeContext {
  readonly version: string
  readonly defaults: ProtocolDefaults
  readonly maxQueuedRequests: number
  /** The routes that `GET /` lists. */
  readonly routes: readonly Pick<Route, 'method' | 'path' | 'summary'>[]
  readonly waitTimes: WaitTimes
}

/** The average time that requests waited for their slot. */
export class WaitTimes {
  #count = 0
  #sum = 0

  add(milliseconds: number): void {
    this.#count++
    this.#sum += milliseconds
  }

  /** In milliseconds; 0 before the first request. */
  get average(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count
  }
}
