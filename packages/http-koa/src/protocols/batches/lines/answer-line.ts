import type { Clock } from '@cllm/core'
import type { Owner } from '../batch-objects.js'
import type { BatchLine, LineAnswer, SendLine } from './line-sender.js'

/** Seconds after which a line is asked again that the server was too busy for. */
const someSeconds = 1
/** A line asks again after this many seconds at most: the limits of its key may have been raised. */
const mostSeconds = 60
/** Answers of a server that is busy, stopping, or without an engine: the line is asked again. */
const busy: ReadonlySet<number> = new Set([429, 499, 502, 503])

/** What {@link answerLine} needs. */
export interface AnswerLineParts {
  readonly send: SendLine
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Waits for seconds before the line is asked again; what it throws is thrown. Default: right here. */
  readonly wait?: (clock: Clock, seconds: number, signal: AbortSignal) => Promise<void>
}

/** Asks what a line asks until the server has time for it; undefined when the signal fires before. */
export async function answerLine(
  line: BatchLine,
  owner: Owner | undefined,
  { send, clock, signal, wait = waitFor }: AnswerLineParts,
): Promise<LineAnswer | undefined> {
  for (;;) {
    let answer: LineAnswer
    try {
      answer = await send(line, owner, signal)
    } catch (error) {
      if (signal.aborted) return undefined
      throw error
    }
    if (signal.aborted) return undefined
    if (!busy.has(answer.status)) return answer
    await wait(clock, Math.min(answer.retryAfter ?? someSeconds, mostSeconds), signal)
  }
}

async function waitFor(clock: Clock, seconds: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.at(clock.now() + 1000 * seconds, done)
    signal.addEventListener('abort', done)
    if (signal.aborted) done()
  })
}
