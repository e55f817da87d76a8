import assert from 'node:assert/strict'
import type { EngineClient } from '@cllm/core'
import { failureOf, greedyRequest, readAll } from './conformance-engine.js'
import { fakeInfillTokens } from '../fakes/fake-tokenizer.js'
import { check, type TestContext } from '../test-context.js'

/** Turns of the event loop that the first embedding takes, in which others wait. */
const longInput = 5000

/** The checks of what can be asked besides generating. */
export async function checkCalls(t: TestContext, client: EngineClient): Promise<void> {
  await check(t, 'tokenizes, and back', async () => {
    const text = 'Once € upon <s> a time'
    const plain = await client.tokenize(text, { addBos: false, special: false })
    assert.equal(await client.detokenize(plain), text)
    const whole = await client.tokenize(text)
    assert.equal(whole.length - (await client.tokenize(text, { addBos: false })).length, 1, 'BOS')
    const error = await failureOf(client.detokenize([4, 999_999]), 'invalid_token')
    assert.equal(error.details['received'], '999999', 'the details of the failure')
    const pieces = await client.pieces(plain)
    const bytes = pieces.flatMap((piece) =>
      typeof piece === 'string' ? [...new TextEncoder().encode(piece)] : piece,
    )
    assert.equal(new TextDecoder().decode(Uint8Array.from(bytes)), text)
    await failureOf(client.pieces([4, 999_999]), 'invalid_token')
    const left = client.tokenize(text, { signal: AbortSignal.abort() })
    await failureOf(left, 'cancelled')
  })

  await check(t, 'writes conversations as the template does', async () => {
    const messages = [{ role: 'user', content: 'hi <|im_end|>' }]
    const { text, tokens } = await client.applyTemplate(messages)
    assert.match(text, /hi <\|im_end\|>.*assistant/s)
    assert(tokens.length > 0)
    const closed = await client.applyTemplate(messages, { addGenerationPrompt: false })
    assert.doesNotMatch(closed.text, /assistant/, 'the options of the template')
  })

  await check(t, 'describes what the engine serves', async () => {
    const { model, limits, capabilities, infill } = await client.info()
    assert.deepEqual([model.architecture, limits.slots], ['fake', 2])
    assert.equal(capabilities.embeddings, true)
    assert.deepEqual(infill, fakeInfillTokens, 'the marks of gaps')
  })

  await check(t, 'describes adapters that come and go', async () => {
    const adapters = async () => (await client.info()).adapters
    await client.loadAdapter({ name: 'own', path: 'own.gguf' })
    assert.deepEqual(await adapters(), await client.adapters())
    assert.equal((await adapters())?.[0]?.name, 'own')
    await client.unloadAdapter('own')
    assert.equal(await adapters(), undefined, 'one that is gone')
  })

  await check(t, 'counts', async () => {
    const before = await client.statistics()
    await readAll(client.submit(greedyRequest('count', 5)))
    const after = await client.statistics()
    assert.equal(after.requests.done, before.requests.done + 1)
    assert.equal(after.generatedTokens, before.generatedTokens + 5)
    assert.equal(after.slots.length, 2)
  })

  await check(t, 'explains a request, and rejects for an unknown one', async () => {
    await readAll(client.submit({ ...greedyRequest('explain', 3), id: 'explained' }))
    const { id, state, usage } = await client.explain('explained')
    assert.deepEqual([id, state, usage.generatedTokens], ['explained', 'done', 3])
    const error = await failureOf(client.explain('unknown'), 'request_not_found')
    assert.deepEqual([error.status, error.details], [404, { id: 'unknown' }])
  })

  await check(t, 'tells what goes on', async () => {
    const { cursor, slots } = await client.activity()
    assert.equal(slots.length, 2)
    await readAll(client.submit({ ...greedyRequest('watched', 3), id: 'watched' }))
    const after = await client.activity(cursor)
    const kinds = after.frames.flatMap(({ spans }) => spans.map(({ id, kind }) => `${id} ${kind}`))
    assert.deepEqual(
      [...new Set(kinds)].sort(),
      ['decode', 'prefill', 'wait'].map((kind) => `watched ${kind}`),
    )
    assert.ok(after.cursor > cursor)
  })

  await check(t, 'swaps the policy', async () => {
    const before = await client.getScheduler()
    assert.equal(before.policy, 'first')
    assert.deepEqual(
      before.available.map(({ name }) => name),
      ['first', 'second'],
    )
    const running = readAll(client.submit(greedyRequest('under way', 100)))
    assert.equal((await client.setScheduler('second')).policy, 'second')
    assert.equal((await client.getScheduler()).policy, 'second')
    const error = await failureOf(client.setScheduler('third'), 'invalid_policy')
    assert.match(error.message, /first, second/, 'the names that could be')
    assert.equal((await running).tokens.length, 100, 'no request is lost')
    await client.setScheduler('first', {})
  })

  await check(t, 'embeds; an input whose client left is not computed', async () => {
    const { vector, promptTokens } = await client.embed({ text: 'one' })
    assert.equal(promptTokens, vector[1])
    const first = client.embed({ tokens: Array.from({ length: longInput }, () => 5) })
    let isDone = false
    void first.then(() => (isDone = true))
    const leaving = new AbortController()
    const left = client.embed({ text: 'abandoned' }, { signal: leaving.signal })
    const stays = client.embed({ text: 'this one stays' }, { signal: new AbortController().signal })
    leaving.abort()
    await failureOf(left, 'cancelled')
    assert.equal(isDone, false, 'it rejects at once')
    const [begun = 0] = (await first).vector
    const [after] = (await stays).vector
    assert.equal(after, begun + 1, 'inputs computed until the next one, which was not abandoned')
    await failureOf(client.embed({ text: 'x' }, { signal: AbortSignal.abort() }), 'cancelled')
    await failureOf(client.embed({ text: '' }), 'invalid_request')
  })

  await check(t, 'calls at once are answered each with its own answer', async () => {
    const texts = ['', 'a', 'bb', 'ccc', 'dddd']
    const all = await Promise.all(texts.map((text) => client.tokenize(text, { addBos: false })))
    const back = await Promise.all(all.map((tokens) => client.detokenize(tokens)))
    assert.deepEqual(back, texts)
  })

  await check(t, 'has a recording, or rejects', async () => {
    const recording = client.recording?.()
    if (recording === undefined) return
    const found = await recording.catch((error: { code?: string }) => {
      assert.equal(error.code, 'unsupported')
    })
    if (found !== undefined) assert.equal(found.kind, 'recording')
  })
}
