import type { Clock, EngineActivity } from '@cllm/core'

/** Milliseconds between two messages while there is work, and while there is none. */
const busyMs = 200
const idleMs = 500

/** Who gets the messages of a {@link LiveFeed}. */
export interface LiveSink {
  /** Whether it has not taken what it was sent before. */
  readonly isBehind: boolean
  /** Whether it is there no more. */
  readonly isGone: boolean
  send(activity: EngineActivity): void
}

/**
 * Asks an engine what goes on and passes it on, at most five times a second. While the sink is behind
 * nothing is asked, so that it costs nothing; what the engine forgets meanwhile is counted as `lost`.
 */
export class LiveFeed {
  constructor(
    private readonly ask: (cursor: number | undefined) => Promise<EngineActivity>,
    private readonly clock: Clock,
  ) {}

  /** Resolves when the sink is gone or the signal aborts; rejects with what asking rejects with. */
  async run(sink: LiveSink, signal: AbortSignal): Promise<void> {
    let cursor: number | undefined
    while (!sink.isGone && !signal.aborted) {
      let isBusy = false
      if (!sink.isBehind) {
        const activity = await this.ask(cursor)
        cursor = activity.cursor
        isBusy = activity.frames.length > 0
        if (!sink.isGone) sink.send(activity)
      }
      await this.#pause(isBusy || sink.isBehind ? busyMs : idleMs, signal)
    }
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = (): void => {
        cancel()
        signal.removeEventListener('abort', end)
        resolve()
      }
      const cancel = this.clock.at(this.clock.now() + ms, end)
      signal.addEventListener('abort', end, { once: true })
      if (signal.aborted) end()
    })
  }
}
