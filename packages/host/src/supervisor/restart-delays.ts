import type { Clock } from '@cllm/core'

/** Uptime in milliseconds after which the next pause is the first again. */
const stableMs = 60_000

/** The pauses before restarts: they grow while engines die soon after they were ready. */
export class RestartDelays {
  #upSince = 0
  #deaths = 0

  constructor(
    private readonly clock: Clock,
    private readonly delaysMs: readonly number[],
  ) {}

  /** An engine is ready. */
  onUp(): void {
    this.#upSince = this.clock.now()
  }

  /** Milliseconds before the next start. */
  next(): number {
    if (this.clock.now() - this.#upSince >= stableMs) this.#deaths = 0
    return this.delaysMs[this.#deaths++] ?? this.delaysMs.at(-1) ?? 0
  }
}
