import assert from 'node:assert/strict'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { systemClock, within } from '@cllm/core'
import type { Channel } from '@cllm/host'
import { check, type TestContext } from '@cllm/testing'

/** A message of the suite; it travels as JSON. */
export interface TestMessage {
  readonly number: number
  readonly text: string
}

/** Both ends of a channel under test. */
export interface TestedChannel {
  readonly ends: readonly [Channel<TestMessage, TestMessage>, Channel<TestMessage, TestMessage>]
  /** Ends it the way it ends in use, such as by the death of a process. */
  readonly end: () => void | Promise<void>
  /** Frees what is left, such as connections. */
  readonly dispose?: () => void | Promise<void>
}

/** Long enough for any channel; a check that waits this long fails. */
const patienceMs = 20_000

/**
 * The conformance suite of channels: messages arrive whole, once and in order in both directions, until
 * the channel closes, which both ends hear of once; then nothing arrives and sending does nothing.
 *
 * @param name what the channel is called in the report
 * @param make a new open channel; the suite calls it twice, and ends each
 */
export async function testChannel(
  t: TestContext,
  name: string,
  make: () => TestedChannel | Promise<TestedChannel>,
): Promise<void> {
  await t.test(`channel ${name}`, async (t) => {
    await using(await make(), async ({ ends: [one, other] }) => {
      await check(t, 'messages arrive once and in order, in both directions at once', async () => {
        const there = received(other, 500)
        const back = received(one, 500)
        for (let number = 0; number < 500; number++) {
          one.send({ number, text: `to ${number}` })
          other.send({ number, text: `fro ${number}` })
        }
        const expected = (word: string) =>
          Array.from({ length: 500 }, (_, number) => ({ number, text: `${word} ${number}` }))
        assert.deepEqual(await there, expected('to'))
        assert.deepEqual(await back, expected('fro'))
      })

      await check(t, 'messages arrive whole: long ones, and any text', async () => {
        const texts = ['x'.repeat(2 ** 20), 'ä€😀\u0000\n"\\', '']
        const there = received(other, texts.length)
        for (const [number, text] of texts.entries()) one.send({ number, text })
        assert.deepEqual(
          (await there).map(({ text }) => text),
          texts,
        )
      })
    })

    await using(await make(), async ({ ends, end }) => {
      await check(t, 'both ends hear of its end, once; later messages are lost', async () => {
        const reasons: string[][] = [[], []]
        const closed = ends.map(
          async (channel, index) =>
            await new Promise<void>((resolve) => {
              channel.onMessage(() => {})
              channel.onClose((reason) => {
                reasons[index]!.push(reason)
                resolve()
              })
            }),
        )
        await end()
        await inTime(Promise.all(closed), 'the end of the channel')
        let late = 0
        for (const channel of ends) channel.onMessage(() => late++)
        for (const channel of ends) channel.send({ number: 1, text: 'late' })
        await turnOfTheEventLoop()
        assert.equal(late, 0, 'nothing arrives after the end')
        for (const own of reasons) assert.equal(own.length, 1, 'the end is told once')
        for (const [reason] of reasons) assert.equal(typeof reason, 'string')
      })
    })
  })
}

async function using(
  tested: TestedChannel,
  body: (tested: TestedChannel) => Promise<void>,
): Promise<void> {
  try {
    await body(tested)
  } finally {
    await tested.end()
    await tested.dispose?.()
  }
}

async function received(
  channel: Channel<TestMessage, TestMessage>,
  count: number,
): Promise<TestMessage[]> {
  const messages: TestMessage[] = []
  const all = new Promise<void>((resolve) => {
    channel.onMessage((message) => {
      messages.push(message)
      if (messages.length === count) resolve()
    })
  })
  await inTime(all, `${count} messages`)
  return messages
}

async function inTime(work: Promise<unknown>, what: string): Promise<void> {
  await within(systemClock, patienceMs, work, () => assert.fail(`${what}: nothing came`))
}
