import { entryOf } from '@cllm/core/defined'

interface Waiting {
  readonly proceed: () => void
  readonly fail: (error: unknown) => void
}

/**
 * Lets one job begin after the other. Tenants take turns, so that the many jobs of one do not hold up those of others; a
 * job that is ended while it waits is forgotten at once.
 */
export class CompileTurns {
  #isTaken = false
  /** By tenant, in the order of their turns. */
  readonly #waiting = new Map<string, Set<Waiting>>()

  /** Whether jobs wait. */
  get areWanted(): boolean {
    return this.#waiting.size > 0
  }

  /**
   * Resolves when the job may begin; call `next` when it has ended.
   * @param signal - ends the wait, which fails with its reason
   */
  async take(tenant: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (!this.#isTaken) {
      this.#isTaken = true
      return
    }
    let leave = (): void => {}
    try {
      await new Promise<void>((proceed, fail) => {
        const own = entryOf(this.#waiting, tenant, () => new Set<Waiting>())
        const waiting = { proceed, fail }
        own.add(waiting)
        leave = () => {
          if (own.delete(waiting) && own.size === 0) this.#waiting.delete(tenant)
          fail(signal?.reason)
        }
        signal?.addEventListener('abort', leave)
      })
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  /** Lets the next job begin. */
  next(): void {
    const [first] = this.#waiting
    this.#isTaken = first !== undefined
    if (first === undefined) return
    const [tenant, own] = first
    const [job] = own
    own.delete(job!)
    this.#waiting.delete(tenant)
    if (own.size > 0) this.#waiting.set(tenant, own)
    job!.proceed()
  }

  /** Fails all waiting jobs. */
  close(error: unknown): void {
    for (const own of this.#waiting.values()) for (const { fail } of own) fail(error)
    this.#waiting.clear()
  }
}
