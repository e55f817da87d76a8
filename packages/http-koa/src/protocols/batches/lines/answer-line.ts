import type { Clock, Logger } from '@cllm/core'
import { publicError } from '../../../errors/public-error.js'
import { openAiErrorBody } from '../../openai/openai-error.js'
import type { Owner } from '../batch-objects.js'
import type { BatchLine, LineAnswer, SendLine } from './line-sender.js'
import { waitFor } from './wait-for.js'

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
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Waits for seconds before the line is asked again; what it throws is thrown. Default: right here. */
  readonly wait?: (clock: Clock, seconds: number, signal: AbortSignal) => Promise<void>
}

/**
 * Asks what a line asks until the server has time for it; undefined when the signal fires before. What
 * goes wrong is an answer, as for any client.
 */
export async function answerLine(
  line: BatchLine,
  owner: Owner | undefined,
  { send, clock, logger, signal, wait = waitFor }: AnswerLineParts,
): Promise<LineAnswer | undefined> {
  for (;;) {
    let answer: LineAnswer
    try {
      answer = await send(line, owner, signal)
    } catch (error) {
      if (signal.aborted) return undefined
      const told = publicError(error, logger)
      answer = { status: told.status, body: openAiErrorBody(told), retryAfter: undefined }
    }
    if (signal.aborted) return undefined
    if (!busy.has(answer.status)) return answer
    await wait(clock, Math.min(answer.retryAfter ?? someSeconds, mostSeconds), signal)
  }
}
