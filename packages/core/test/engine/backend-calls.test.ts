import type { Backend } from '@cllm/core'
import { firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { collect, expectedTokens, greedy, isDone, promptOf, rig, WatchedBackend } from '../rig.js'

const nothing = (() => undefined) as never

t.test('what a backend returns is checked where it returns, and no policy is blamed', async (t) => {
  const wrong: [keyof Backend, Partial<Backend>, RegExp][] = [
    ['truncate', { truncate: nothing }, /tokens kept, from 0 to 40, instead got undefined/],
    ['truncate', { truncate: () => 0.5 }, /instead got 0.5/],
    ['truncate', { truncate: (_slot, length) => length + 1 }, /instead got 41/],
    ['preferSlot', { preferSlot: nothing }, /one of the slots 1,0, instead got undefined/],
    ['layoutMs', { layoutMs: () => NaN }, /milliseconds from 0, instead got NaN/],
    ['createSampler', { createSampler: nothing }, /a sampler with dispose\(\), instead got undef/],
  ]
  for (const [call, changed, message] of wrong) {
    const made = rig({
      slots: 2,
      backend: (given) => new WatchedBackend(given),
      fallbackPolicy: () => firstComeFirstServed,
    })
    const { ask, backend, engine } = made
    await ask(greedy(promptOf(60), 3))
    const right = Object.fromEntries(Object.keys(changed).map((key) => [key, undefined]))
    for (const key of Object.keys(changed)) right[key] = backend[key as 'truncate'] as never
    Object.assign(backend, changed)
    const like = [...promptOf(40), ...promptOf(10, 3)]
    const { error } = await ask(greedy(like, 3))
    t.match(error, { code: 'backend_failed', details: { backend: 'fake', call }, message })
    t.match(error?.message, /^The backend of "fake" returned a wrong value: /)
    t.match(engine.statistics(), { policyFaults: 0 }, call)
    Object.assign(backend, right)
    const after = await ask(greedy(promptOf(9, 2), 3))
    t.same(after.tokens, expectedTokens(backend, promptOf(9, 2), 3), 'the next one is well')
    await isDone(t, made)
  }
})

t.test(
  'a wrong count of drafts kept fails the request that drafts, and no other one',
  async (t) => {
    const made = rig({
      options: { speculative: 'ngram' },
      fallbackPolicy: () => firstComeFirstServed,
    })
    const { backend, client, engine, run } = made
    const truncate = backend.truncate.bind(backend)
    backend.truncate = nothing
    const repeats = Array.from({ length: 8 }, () => promptOf(6)).flat()
    const [mine, other] = [greedy(repeats, 60), greedy(promptOf(9, 1), 60)]
    const [failed, whole] = await run(
      Promise.all(
        [mine, { ...other, speculative: false }].map((one) => collect(client.submit(one))),
      ),
    )
    t.match(failed?.error, { code: 'backend_failed', details: { call: 'truncate' } })
    t.same(whole?.tokens, expectedTokens(backend, promptOf(9, 1), 60))
    t.match(engine.statistics(), { policyFaults: 0, requests: { failed: 1, done: 1 } })
    backend.truncate = truncate
    await isDone(t, made)
  },
)

t.test('an item fails with what its backend gives as its error', async (t) => {
  const made = rig({ slots: 2 })
  const { ask, backend } = made
  const step = backend.step.bind(backend)
  backend.step = async (batch) => {
    return { ...(await step(batch)), errors: new Map([[0, new Error('boom') as never]]) }
  }
  const { error } = await ask(greedy(promptOf(9), 3))
  t.match(error, { code: 'backend_failed', message: 'The backend failed: boom' })
  backend.step = step
  t.same((await ask(greedy(promptOf(9), 3))).tokens, expectedTokens(backend, promptOf(9), 3))
  await isDone(t, made)
})

t.test('a copy with a wrong count is computed instead', async (t) => {
  for (const came of [undefined, NaN, -1, 1e6]) {
    const made = rig({ slots: 2 })
    const { backend, ask, client, run } = made
    backend.copyPrefix = (async () => came) as never
    const prompt = promptOf(150)
    const [one, two] = await run(
      Promise.all([3, 4].map((count) => collect(client.submit(greedy(prompt, count))))),
    )
    t.same(one?.tokens, expectedTokens(backend, prompt, 3))
    t.same(two?.tokens, expectedTokens(backend, prompt, 4))
    await ask(greedy(promptOf(9), 3))
    await isDone(t, made)
  }
})
