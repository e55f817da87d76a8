import assert from 'node:assert/strict'
import type { EngineClient } from '@cllm/core'
import { checkCalls } from './engine-call-checks.js'
import { checkCancelling, checkStreams } from './engine-stream-checks.js'
import {
  endless,
  greedyRequest,
  readAll,
  readFirstToken,
  assertFailed,
} from './conformance-engine.js'
import { check, type TestContext } from '../test-context.js'

/** A client under test, with an engine of its own behind it. */
export interface TestedClient {
  readonly client: EngineClient
  /** Ends what is left of it, such as a process; called after the client was closed. */
  readonly dispose?: () => void | Promise<void>
}

/**
 * The conformance suite of engine clients: it holds an {@link EngineClient} to all that its contract
 * promises, wherever the engine is. The engine behind the client is
 * {@link createConformanceEngine}'s, or {@link hostConformanceEngine} serves it at the other end of a
 * channel, such as in another process or on another machine. Time is real, and nothing is measured.
 *
 * @param name what the client is called in the report
 * @param make a client whose engine is new and idle; the suite calls it twice, and closes each
 */
export async function testEngineClient(
  t: TestContext,
  name: string,
  make: () => TestedClient | Promise<TestedClient>,
): Promise<void> {
  await t.test(`engine client ${name}`, async (t) => {
    const { client, dispose } = await make()
    try {
      await checkStreams(t, client)
      await checkCancelling(t, client)
      await checkCalls(t, client)
    } finally {
      await client.close()
      await dispose?.()
    }
    await checkEnd(t, await make())
  })
}

async function checkEnd(t: TestContext, { client, dispose }: TestedClient): Promise<void> {
  const request = (maxTokens: number) => greedyRequest('Once upon a time', maxTokens)
  const codeOf = async (maxTokens: number) =>
    (await readAll(client.submit(request(maxTokens)))).error?.code
  try {
    // One check: between two, a test runner may take as long as all of these answers.
    const name = 'draining, it takes nothing new and what is there goes on; closed, it ends that'
    await check(t, name, async () => {
      const long = client.submit(request(endless))
      const short = client.submit(request(100))
      await Promise.all([readFirstToken(long), readFirstToken(short)])
      const waiting = client.submit(request(endless)) // both slots are taken
      let isDrained = false
      const draining = client.drain().then(() => (isDrained = true))
      assert.equal(await codeOf(3), 'shutting_down')
      const { error, events } = await readAll(short)
      assert.deepEqual([error, events.at(-1)?.type], [undefined, 'end'])
      assert.equal(isDrained, false, 'it is not drained while a request runs')

      const ends = Promise.all([readAll(long), readAll(waiting)])
      await Promise.all([client.close(), client.close()])
      for (const content of await ends) assertFailed(content, 'shutting_down')
      await draining
      await client.close()
      const code = await codeOf(3)
      assert(
        code === 'shutting_down' || code === 'engine_unavailable',
        `expected shutting_down or engine_unavailable after the close, instead got ${code}`,
      )
    })
  } finally {
    await client.close().catch(() => {})
    await dispose?.()
  }
}
