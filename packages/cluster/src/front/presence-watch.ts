import type { Clock } from '@cllm/core'
import type { ClusterBus } from '../bus/cluster-bus.js'

/** The interval of checks in milliseconds. */
const lookMs = 250
/** The checks in a row after which a missing worker counts as gone; a broken connection is back before. */
const mostMissing = 2

/** Notices within half a second that the process of a worker has died. */
export class PresenceWatch {
  /** By worker that was present: in how many checks in a row it has been missing. */
  readonly #missing = new Map<string, number>()
  #cancel: () => void = () => {}
  #isClosed = false

  constructor(
    private readonly bus: ClusterBus,
    private readonly clock: Clock,
    private readonly listener: {
      /** The ids to check. */
      readonly ids: () => readonly string[]
      readonly onGone: (id: string) => void
    },
  ) {}

  start(): void {
    if (this.bus.present === undefined || this.#isClosed) return
    this.#cancel = this.clock.at(this.clock.now() + lookMs, () => {
      // A bus that does not answer must not make anybody count as gone.
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
