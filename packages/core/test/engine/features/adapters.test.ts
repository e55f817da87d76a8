import {
  type AdapterChoice,
  type AppliedAdapter,
  CllmError,
  defaultSampling,
  type TokenId,
  pause,
} from '@cllm/core'
import { runUntilIdle } from '@cllm/testing'
import t from 'tap'
import {
  collect,
  greedy,
  isDone,
  PartsBackend,
  promptOf,
  rig,
  type Rig,
  WatchedBackend,
} from '../../rig.js'

type Inputs = readonly (readonly TokenId[])[]

const params = { ...defaultSampling, temperature: 0, ignoreEos: true, seed: 0 }

/** What the model says with these adapters of the rig. */
function expected(
  { backend }: Rig,
  prompt: readonly number[],
  count: number,
  applied: readonly (readonly [path: string, scale: number])[],
): number[] {
  const all = applied.map(([key, scale]): AppliedAdapter => ({
    adapter: { key, dispose() {} },
    scale,
  }))
  return backend.continuation(prompt, params, count, all)
}

const withAdapters = (
  tokens: readonly number[],
  adapters: readonly AdapterChoice[],
  count = 12,
) => ({
  ...greedy(tokens, count),
  adapters,
})

t.test('requests get the text of their adapters, side by side, cached or preempted', async (t) => {
  const made = rig({ adapters: true, slots: 3, options: { cacheRamBytes: 1e6 } })
  const { client, run, clock } = made
  await run(client.loadAdapter({ name: 'a', path: 'a.gguf', scale: 2 }))
  await run(client.loadAdapter({ name: 'b', path: 'b.gguf' }))
  t.same((await client.info()).adapters, await client.adapters())
  const prompt = promptOf(40)
  const lists: [AdapterChoice[], [string, number][]][] = [
    [[], []],
    [[{ adapter: 'a' }], [['a.gguf', 2]]],
    [[{ adapter: 1, scale: -1 }], [['b.gguf', -1]]],
    [
      [{ adapter: 'b' }, { adapter: 'a', scale: 1 }],
      [
        ['a.gguf', 1],
        ['b.gguf', 1],
      ],
    ],
    [[{ adapter: 'a', scale: 0 }], []],
  ]
  for (let round = 0; round < 3; round++) {
    const answers = lists.map(async ([adapters, applied]) => {
      const { tokens } = await collect(client.submit(withAdapters(prompt, adapters)))
      t.same(tokens, expected(made, prompt, 12, applied))
    })
    await run(Promise.all(answers))
  }
  // Of the same adapters with the same scales prefixes are shared, of others none.
  const ask = async (adapters: AdapterChoice[]) =>
    (await made.ask(withAdapters(prompt, adapters, 1))).end?.usage.cachedTokens
  await ask([{ adapter: 'a' }])
  t.ok((await ask([{ adapter: 'a' }]))! > 30)
  t.equal(await ask([{ adapter: 'a', scale: 3 }]), 0)
  await runUntilIdle(clock)
  await isDone(t, made)
})

t.test('an adapter stays until the last request that uses it has ended', async (t) => {
  const made = rig({ adapters: true, slots: 1 })
  const { client, run, clock, backend } = made
  await run(client.loadAdapter({ name: 'a', path: 'a.gguf' }))
  const [adapter] = backend.adapters!.loaded
  const answers = [30, 10].map(async (count) => {
    return await collect(client.submit(withAdapters(promptOf(5), [{ adapter: 'a' }], count)))
  })
  await runUntilIdle(clock, 1050)
  await client.unloadAdapter('a')
  t.match(await made.ask(withAdapters(promptOf(5), [{ adapter: 'a' }])), {
    error: { code: 'model_not_found', message: /none, as no adapter is loaded/ },
  })
  t.equal(adapter?.isDisposed, false)
  for (const { tokens } of await run(Promise.all(answers))) {
    const count = tokens.length
    t.same(tokens, expected(made, promptOf(5), count, [['a.gguf', 1]]))
  }
  await runUntilIdle(clock)
  await made.ask(greedy([5], 1))
  t.equal(adapter?.isDisposed, true)
  await t.rejects(client.unloadAdapter('a'), { code: 'model_not_found' })
  // Its name is free for another file, its number is not given again.
  t.match(await run(client.loadAdapter({ name: 'a', path: 'c.gguf' })), { id: 1 })
  await isDone(t, made)
})

t.test('an adapter stays until the pass that computes an embedding with it is over', async (t) => {
  const disposed: unknown[] = []
  class Slow extends WatchedBackend {
    override async embed(inputs: Inputs, applied: readonly AppliedAdapter[] = []) {
      await pause(made.clock, 10)
      const vectors = await super.embed(inputs, applied)
      disposed.push(this.adapters?.loaded.map(({ isDisposed }) => isDisposed))
      return vectors
    }
  }
  const made = rig({ adapters: true, embeddingSize: 4, backend: (options) => new Slow(options) })
  const { client, run, clock, backend } = made
  await run(client.loadAdapter({ name: 'a', path: 'a.gguf' }))
  const leaving = new AbortController()
  const adapters = [{ adapter: 'a' }]
  const left = client.embed({ tokens: [5] }, { adapters, signal: leaving.signal })
  await runUntilIdle(clock, clock.now() + 5)
  leaving.abort()
  await t.rejects(left, { code: 'cancelled' })
  await client.unloadAdapter('a')
  await runUntilIdle(clock)
  t.same(disposed, [[false]], 'though its client had left')
  t.equal(backend.adapters?.loaded[0]?.isDisposed, true)
})

t.test('adapters come and go while no embedding is computed', async (t) => {
  const made = rig({ adapters: true, embeddingSize: 4 })
  const { client, run, backend } = made
  const embed = () => client.embed({ tokens: [5] })
  for (let round = 0; round < 3; round++) {
    const before = embed()
    const load = client.loadAdapter({ name: 'a', path: 'a.gguf' })
    await run(Promise.all([before, load, embed(), client.submit(greedy([5], 2)).next()]))
    const [, , after] = await run(Promise.all([embed(), client.unloadAdapter('a'), embed()]))
    t.equal(after.vector.length, 4)
    await runUntilIdle(made.clock)
    t.equal(backend.adapters?.loaded[round]?.isDisposed, true)
  }
  await isDone(t, made)
})

t.test('an adapter stays for requests whose prompts are tokenized yet', async (t) => {
  const made = rig({
    adapters: true,
    contextSize: 9000,
    backend: (given) => new PartsBackend(given),
  })
  const { client, run, clock, backend } = made
  await run(client.loadAdapter({ name: 'a', path: 'a.gguf' }))
  const prompt = { text: 'x'.repeat(5000) }
  const tokens = await client.tokenize(prompt.text)
  const ask = (id: string) =>
    collect(client.submit({ ...withAdapters([], [{ adapter: 'a' }]), prompt, id }))
  const [answer, left] = [ask('stays'), ask('leaves')]
  await client.unloadAdapter('a')
  client.cancel('leaves')
  t.match((await run(left)).error, { code: 'cancelled' })
  t.same((await run(answer)).tokens, expected(made, tokens, 12, [['a.gguf', 1]]))
  await runUntilIdle(clock)
  t.equal(backend.adapters?.loaded[0]?.isDisposed, true)
  await isDone(t, made)
})

t.test('what cannot be is refused', async (t) => {
  const plain = rig()
  const made = rig({ adapters: true })
  const { client, run } = made
  const unsupported = { code: 'unsupported', details: { capability: 'lora' } }
  await t.rejects(plain.client.loadAdapter({ name: 'a', path: 'a.gguf' }), unsupported)
  t.match((await plain.ask(withAdapters([5], [{ adapter: 'a' }]))).error, unsupported)
  t.equal((await plain.ask(withAdapters([5], []))).error, undefined)
  t.equal((await plain.client.info()).adapters, undefined)

  const sources: [unknown, RegExp][] = [
    [{ name: 'a b', path: 'a.gguf' }, /name: expected up to 64/],
    [{ name: 'a', path: '' }, /path: expected a file/],
    [{ name: 'a', path: 'a.gguf', scale: Infinity }, /scale/],
    [{ name: 'a', path: 'a.gguf', id: 1.5 }, /id/],
    [{ name: 'a', path: 'a.bin' }, /a\.bin: expected an adapter/],
  ]
  for (const [source, message] of sources) {
    await t.rejects(run(client.loadAdapter(source as never)), { message })
  }
  const twice = ['a', 'a'].map((name) => client.loadAdapter({ name, path: `${name}.gguf` }))
  const [first, second] = await run(Promise.allSettled(twice))
  t.match(first, { status: 'fulfilled' })
  t.match(second, { reason: { message: /there is an adapter "a" already/ } })
  const alike = ['x', 'y'].map((name) => client.loadAdapter({ name, path: 'x.gguf', id: 77 }))
  const [, other] = await run(Promise.allSettled(alike))
  t.match(other, { reason: { message: /id: expected a free number/ } }, 'of two at once, too')
  await client.unloadAdapter('x')
  const [taken] = await client.adapters()
  await t.rejects(client.loadAdapter({ name: 'b', path: 'b.gguf', id: taken?.id ?? -1 }), {
    message: /id: expected a free number/,
  })
  const choices: [unknown, RegExp][] = [
    ['a', /an array of at most 8/],
    [[{ adapter: 'x' }], /expected a \(\d\), instead got "x"/],
    [[null], /instead got nothing/],
    [[{ adapter: 'a', scale: 'much' }], /adapters\.scale/],
    [[{ adapter: 'a' }, { adapter: 'a', scale: 2 }], /each adapter once/],
  ]
  for (const [adapters, message] of choices) {
    const { error } = await made.ask({ ...greedy([5], 1), adapters: adapters as never })
    t.match(error?.message, message)
  }
  await client.close()
  const late = await client.loadAdapter({ name: 'c', path: 'c.gguf' }).catch((error) => error)
  t.ok(CllmError.isInstance(late))
  t.match(late, { code: 'shutting_down' })
})
