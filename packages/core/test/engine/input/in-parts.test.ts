import { setImmediate } from 'node:timers/promises'
import type { Backend, ChatMessage, EncodeOptions, TokenId } from '@cllm/core'
import { FakeTokenizer } from '@cllm/testing'
import t from 'tap'
import { collect, isDone, rig, WatchedBackend } from '../../rig.js'

/** Tokenizes a thousand characters at a time and counts how often. */
class PartsTokenizer extends FakeTokenizer {
  parts = 0;

  *encodeInParts(text: string, options: EncodeOptions = {}): Generator<TokenId[], void> {
    for (let start = 0; start < text.length; start += 1000) {
      this.parts++
      const addBos = start === 0 && options.addBos !== false
      yield this.encode(text.slice(start, start + 1000), { ...options, addBos })
    }
  }

  renderChatInParts(messages: readonly ChatMessage[]) {
    const { text, tokens } = this.renderChat(messages)
    return { text, tokens: this.#inParts(tokens) }
  }

  *#inParts(tokens: readonly TokenId[]): Generator<readonly TokenId[], void> {
    for (let start = 0; start < tokens.length; start += 1000) {
      this.parts++
      yield tokens.slice(start, start + 1000)
    }
  }
}

class PartsBackend extends WatchedBackend {
  override readonly tokenizer = new PartsTokenizer()
}

const partsRig = (contextSize: number) => {
  const made = rig({ contextSize, batchSize: 65_536, backend: (given) => new PartsBackend(given) })
  return { ...made, tokenizer: made.backend.tokenizer as PartsTokenizer }
}

const text = 'x'.repeat(60_000)
const messages = [{ role: 'user', content: text }]

t.test('long prompts are tokenized in parts, with steps in between', async (t) => {
  const { client, run, tokenizer } = partsRig(65_536)
  for (const prompt of [{ text }, { messages }]) {
    tokenizer.parts = 0
    const short = collect(client.submit({ prompt: { text: 'x' }, maxTokens: 2, id: 'short' }))
    const long = collect(client.submit({ prompt, maxTokens: 2, id: 'long' }))
    t.equal(tokenizer.parts, 1, 'one part at once')
    await run(short)
    t.ok(tokenizer.parts < 50, 'others need not wait for the rest')
    const { end, tokens } = await run(long)
    const whole =
      'text' in prompt ? tokenizer.encode(text) : tokenizer.renderChat(prompt.messages).tokens
    t.equal(end?.usage.promptTokens, whole.length)
    t.equal(tokens.length, 2)
  }
  t.same(await client.tokenize(text), tokenizer.encode(text))
  tokenizer.parts = 0
  const rendering = client.applyTemplate(messages)
  t.equal(tokenizer.parts, 1)
  t.same(await rendering, tokenizer.renderChat(messages))
})

t.test('a text is not tokenized to its end for a client that left', async (t) => {
  const { client, engine, tokenizer } = partsRig(2048)
  const leaving = new AbortController()
  const counting = client.tokenize(text, { signal: leaving.signal })
  await setImmediate()
  leaving.abort()
  await t.rejects(counting, { code: 'cancelled' })
  t.ok(tokenizer.parts < 5)
  await t.rejects(client.tokenize('x', { signal: leaving.signal }), { code: 'cancelled' })
  await engine.close()
})

t.test('many long prompts are tokenized one after the other, one part a turn', async (t) => {
  const { client, clock, run, tokenizer } = partsRig(65_536)
  const began: string[] = []
  const asked = ['a', 'b', 'c'].map(async (id) => {
    const stream = client.submit({ prompt: { text }, maxTokens: 1, id })
    const reading = stream.next().then(() => began.push(id))
    await Promise.all([reading, collect(stream)])
  })
  const counted = client.tokenize(text)
  t.equal(tokenizer.parts, 1, 'however many there are')
  for (let turn = 0; turn < 20; turn++) {
    const before = tokenizer.parts
    await setImmediate()
    t.ok(tokenizer.parts - before <= 1)
  }
  t.ok(tokenizer.parts > 10)
  client.cancel('b')
  await t.rejects(asked[1]!, { code: 'cancelled' })
  t.ok(tokenizer.parts < 50, 'who waits for the others is cancelled meanwhile')
  t.equal(clock.now(), 1000)
  await run(Promise.all([asked[0], asked[2]]))
  t.same(began, ['a', 'c'])
  t.same(await counted, tokenizer.encode(text))
})

t.test('a prompt that turns out to be too long ends the check of its constraint', async (t) => {
  const made = partsRig(2048)
  const checks: AbortSignal[] = []
  const backend: Backend = made.backend
  backend.checkConstraint = (_, signal) =>
    new Promise((_resolve, reject) => {
      checks.push(signal!)
      signal!.addEventListener('abort', () => reject(new Error('after the end')))
    })
  const sampling = { constraint: { type: 'json' } } as const
  const request = { prompt: { text: 'x'.repeat(20_000) }, sampling, timeoutMs: 1000 }
  const asked = collect(made.client.submit(request))
  t.match([made.tokenizer.parts, checks], [1, [{ aborted: false }]], 'both are under way')
  const { error } = await asked
  t.match(error, { code: 'prompt_too_long' })
  t.match(checks, [{ aborted: true, reason: { code: 'prompt_too_long' } }])
  t.equal(made.clock.nextTimer(), undefined, 'nor is its time limit waited for')
  await isDone(t, made)
})

t.test('what does not fit, is cancelled or closed is not tokenized to its end', async (t) => {
  const { client, engine, run, tokenizer } = partsRig(2048)
  const tooLong = await run(collect(client.submit({ prompt: { text: 'x'.repeat(20_000) } })))
  t.match(tooLong.error, { code: 'prompt_too_long', details: { contextSize: 2048 } })
  t.match(tooLong.error?.message, /at least 3\d{3} tokens, a slot holds 2048/)
  t.equal(tokenizer.parts, 3)

  const roomy = partsRig(65_536)
  const cancelled = collect(roomy.client.submit({ prompt: { text }, id: 'a' }))
  const twice = await roomy.run(collect(roomy.client.submit({ prompt: { text: 'x' }, id: 'a' })))
  t.match(twice.error, { code: 'duplicate_request' }, 'its id is taken')
  roomy.client.cancel('a')
  t.match((await roomy.run(cancelled)).error, { code: 'cancelled' })
  t.ok(roomy.tokenizer.parts < 50)
  t.match(roomy.engine.statistics().requests, { cancelled: 1 })

  const drained = collect(roomy.client.submit({ prompt: { text }, maxTokens: 3 }))
  let isDrained = false
  const draining = roomy.engine.drain().then(() => (isDrained = true))
  await setImmediate()
  t.notOk(isDrained, 'it is waited for')
  t.equal((await roomy.run(drained)).tokens.length, 3)
  await draining

  const closed = partsRig(65_536)
  const reading = collect(closed.client.submit({ prompt: { text } }))
  const counting = closed.client.tokenize(text)
  await Promise.all([
    closed.run(closed.client.close()),
    t.rejects(counting, { code: 'shutting_down' }),
  ])
  t.match((await reading).error, { code: 'shutting_down' })
  t.ok(closed.tokenizer.parts < 50)
  await engine.close()
})
