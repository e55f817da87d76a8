import type { Clock } from '@cllm/core'
import type { ClusterBus } from '../bus/cluster-bus.js'

/** Milliseconds between two looks. */
const lookMs = 250
/** A worker that is missing so often in a row is gone: one whose connection broke has come back until then. */
const mostMissing = 2

/** Notices within half a second that the process of a worker has died. */
export class PresenceWatch {
  /** How often each that was present is missing now, in a row. */
  readonly #missing = new Map<string, number>()
  #cancel: () => void = () => {}
  #isClosed = false

  constructor(
    private readonly bus: ClusterBus,
    private readonly clock: Clock,
    private readonly listener: {
      /** Those whose presence is of interest. */
      readonly ids: () => readonly string[]
      readonly onGone: (id: string) => void
    },
  ) {}

  start(): void {
    if (this.bus.present === undefined || this.#isClosed) return
    this.#cancel = this.clock.at(this.clock.now() + lookMs, () => {
      // A bus that does not answer knows of nobody.
      this.#look()
        .catch(() => this.#missing.clear())
        .finally(() => this.start())
    })
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  async #look(): Promise<void> {
    const ids = this.listener.ids()
    for (const id of this.#missing.keys()) if (!ids.includes(id)) this.#missing.delete(id)
    if (ids.length === 0) return
    const present = await this.bus.present?.(ids)
    if (present === undefined) return this.#missing.clear()
    for (const id of ids) {
      const before = this.#missing.get(id)
      if (present.has(id)) this.#missing.set(id, 0)
      else if (before !== undefined && before + 1 < mostMissing) this.#missing.set(id, before + 1)
      else if (before !== undefined) {
        this.#missing.delete(id)
        this.listener.onGone(id)
      }
    }
  }
}
