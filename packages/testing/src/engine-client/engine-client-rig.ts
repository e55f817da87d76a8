import assert from 'node:assert/strict'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import {
  type EngineClient,
  type GenerateEvent,
  type GenerateEvents,
  type GenerateRequest,
  type TokenId,
  type ErrorCode,
  CllmError,
} from '@cllm/core'

/** All that a stream had to say. */
export interface StreamContent {
  readonly events: readonly GenerateEvent[]
  readonly tokens: readonly TokenId[]
  readonly error: CllmError | undefined
}

/** More tokens than any check waits for. */
export const endless = 30_000

/** The statistics are asked so often for what must happen soon. */
const patience = 2000

/** A request for exactly this many tokens, always the same ones. */
export const greedyRequest = (text: string, maxTokens: number): GenerateRequest => ({
  prompt: { text },
  maxTokens,
  sampling: { temperature: 0, ignoreEos: true },
})

/** Reads a stream to its end. Throws what is thrown and is no {@link CllmError}. */
export async function readAll(stream: GenerateEvents): Promise<StreamContent> {
  const events: GenerateEvent[] = []
  let error: CllmError | undefined
  try {
    for await (const event of stream) events.push(event)
  } catch (thrown) {
    error = asCllmError(thrown)
  }
  const tokens = events.flatMap((event) => (event.type === 'token' ? [event.token] : []))
  return { events, tokens, error }
}

/** Reads a stream until it has given its first token. */
export async function readFirstToken(stream: GenerateEvents): Promise<void> {
  for (;;) {
    const { value, done } = await stream.next()
    assert(done !== true && value.type !== 'end', 'the stream ended before its first token')
    if (value.type === 'token') return
  }
}

/** What a call fails with, which must be a {@link CllmError} of this code. */
export async function failureOf(call: Promise<unknown>, code: ErrorCode): Promise<CllmError> {
  const failure = await call.then(
    () => assert.fail(`expected ${code}, instead it succeeded`),
    (error: unknown) => asCllmError(error),
  )
  assert.equal(failure.code, code, failure.message)
  return failure
}

/** Asserts that a stream failed with this code and message. */
export function assertFailed({ error }: StreamContent, code: ErrorCode, message?: string): void {
  assert.equal(error?.code, code, `the stream fails with ${code}`)
  if (message !== undefined) assert.equal(error?.message, message, 'the reason')
}

/** Waits until the engine does nothing and all its slots are free. */
export async function untilIdle(client: EngineClient): Promise<void> {
  let seen = ''
  for (let turn = 0; turn < patience; turn++) {
    const { waiting, running, slots } = await client.statistics()
    const busy = slots.filter(({ state }) => state !== 'idle')
    if (waiting === 0 && running === 0 && busy.length === 0) return
    seen = `${running} running, ${waiting} waiting, ${busy.length} slots taken`
    await turnOfTheEventLoop()
  }
  assert.fail(`a slot is not freed: ${seen}`)
}

function asCllmError(error: unknown): CllmError {
  if (CllmError.isInstance(error)) return error
  throw new assert.AssertionError({ message: `not a CllmError: ${String(error)}` })
}
