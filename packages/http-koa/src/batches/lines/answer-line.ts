import type { Clock } from '@cllm/core'
import type { Owner } from '../batch-objects.js'
import type { BatchLine, LineAnswer, SendLine } from './line-sender.js'

/** Seconds after which a line is asked again that the server was too busy for. */
const someSeconds = 1
/** Answers of a server that is busy, stopping, or without an engine: the line is asked again. */
const busy: ReadonlySet<number> = new Set([429, 499, 502, 503])

/** Asks what a line asks until the server has time for it; undefined when the signal fires before. */
export async function answerLine(
  line: BatchLine,
  owner: Owner | undefined,
  { send, clock, signal }: { send: SendLine; clock: Clock; signal: AbortSignal },
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
    await wait(clock, answer.retryAfter ?? someSeconds, signal)
  }
}

async function wait(clock: Clock, seconds: number, signal: AbortSignal): Promise<void> {
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
