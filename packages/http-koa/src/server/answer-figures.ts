import type { Clock } from '@cllm/core'
import type { ObservedRequest, RequestObserver, RequestWatch } from '../engines/request-observer.js'

/** What the line of a request in the log says of its generation; empty where it had none. */
export interface Figures {
  model?: string
  promptTokens?: number
  /** Those of the prompt that were computed before. */
  cachedTokens?: number
  generatedTokens?: number
  /** Milliseconds from the request's arrival to the first token. */
  ttftMs?: number
  /** From the first token to the last. */
  tokensPerSecond?: number
  /** Why the generation ended: `stop`, `length`, or the code of an error. */
  finish?: string
}

/**
 * Notes what the requests of a transport generate, by the id that the engine's request has from the
 * answer's. Of several answers to one request it notes nothing: there is no one figure.
 */
export class AnswerFigures implements RequestObserver {
  readonly #open = new Map<string, { readonly began: number; readonly figures: Figures }>()

  constructor(private readonly clock: Clock) {}

  begin(id: string): void {
    this.#open.set(id, { began: this.clock.now(), figures: {} })
  }

  /** The figures of a request whose answer is over. */
  take(id: string): Figures {
    const { figures = {} } = this.#open.get(id) ?? {}
    this.#open.delete(id)
    return figures
  }

  onSubmit({ model, request: { id = '', sample } }: ObservedRequest): RequestWatch {
    const { began, figures } = this.#open.get(id) ?? {}
    if (figures === undefined || sample !== undefined) return { onEvent() {}, onEnd() {} }
    figures.model = model
    let [first, last] = [0, 0]
    return {
      onEvent(event, now) {
        if (event.type === 'start') figures.promptTokens ??= event.promptTokens
        if (event.type === 'end') {
          figures.finish = event.reason
          figures.cachedTokens ??= event.usage.cachedTokens
        }
        if (event.type !== 'token') return
        figures.ttftMs ??= tenth(now - began!)
        figures.generatedTokens = (figures.generatedTokens ?? 0) + 1
        first ||= now
        last = now
      },
      onEnd(_now, error) {
        if (error !== undefined) figures.finish = error.code
        const { generatedTokens = 0 } = figures
        const seconds = (last - first) / 1000
        if (seconds > 0) figures.tokensPerSecond = tenth((generatedTokens - 1) / seconds)
      },
    }
  }
}

/** As exact as anybody reads it. */
export const tenth = (value: number): number => Math.round(value * 10) / 10
