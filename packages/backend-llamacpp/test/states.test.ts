import { createHash } from 'node:crypto'
import { truncate } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Clock,
  createEngine,
  type EngineStatistics,
  type GenerateEvent,
  PluginRegistry,
  systemClock,
  systemRandom,
  type TokenId,
  WAIT_PREDICTOR,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { firstComeFirstServed } from '@cllm/testing'
import * as fc from 'fast-check'
import type { LlamaCppOptions } from '../src/llamacpp-options.js'
import { sampleFile, stateKey } from '../src/model/sample-file.js'
import { openTiny } from './open-tiny.js'

import t, { type Test } from 'tap'

type Kind = NonNullable<NonNullable<Parameters<typeof openTiny>[1]>['kind']>

interface Turn {
  readonly conversation: number
  readonly tokens: readonly TokenId[]
  readonly count: number
  readonly temperature: number
  readonly choices: boolean
  /** Tokens of the answer that the next prompt leaves out, as templates leave thinking out. */
  readonly dropped: number
}

interface Played {
  readonly answers: TokenId[][]
  /** Prompt tokens that were computed, and those of the last turn. */
  readonly computed: number
  readonly last: number
  readonly statistics: EngineStatistics
}

/** Plays the turns one after the other, those of one round at once, and returns what was said. */
async function play(
  t: Test,
  kind: Kind,
  rounds: readonly (readonly Turn[])[],
  cacheRamBytes: number,
  slots: Partial<LlamaCppOptions> = { slots: 2, contextSize: 512 },
): Promise<Played> {
  const backend = await openTiny(t, { kind, ...slots })
  const registry = new PluginRegistry()
  const options = { cacheRamBytes }
  // Time goes with tokens, as on a large model: of one this small nothing would be worth saving.
  let computing = 0
  const step = backend.step.bind(backend)
  backend.step = async (batch) => {
    computing += batch.reduce((sum, { tokens }) => sum + 10 * tokens.length, 0)
    return await step(batch)
  }
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + computing }
  // Expects no answers of a pool, so that they outgrow it.
  registry.provide(WAIT_PREDICTOR, 'hopeful', ({ original }) =>
    Object.assign(original(), { answerTokens: () => 0 }),
  )
  const use = slots.kvTokens === undefined ? {} : { 'wait-predictor': 'hopeful' }
  const parts = { backend, policy: firstComeFirstServed, registry, use, options, clock }
  const engine = createEngine(parts)
  const client = new LocalEngineClient(engine, registry, systemRandom)
  const system = Array.from({ length: 90 }, (_, index) => 262 + ((index * 7) % 25))
  const texts = new Map<number, TokenId[]>()
  const answers: TokenId[][] = []
  let [computed, last] = [0, 0]
  for (const round of rounds) {
    const one = async (turn: Turn) => {
      const { conversation, tokens: more, count: maxTokens, temperature, choices, dropped } = turn
      const prompt = [...(texts.get(conversation) ?? system), ...more]
      const gbnf = { type: 'gbnf', grammar: 'root ::= [a-f] [a-f] [a-f] [a-f]*' } as const
      const constraint = choices ? { constraint: gbnf } : {}
      const sampling = { temperature, seed: 7, ignoreEos: true, ...constraint }
      const events: GenerateEvent[] = []
      const request = { prompt: { tokens: prompt }, maxTokens, sampling }
      for await (const event of client.submit(request)) events.push(event)
      const said = events.flatMap((event) => (event.type === 'token' ? [event.token] : []))
      const end = events.find((event) => event.type === 'end')
      if (end?.type === 'end') last = end.usage.promptTokens - end.usage.cachedTokens
      computed += last
      texts.set(conversation, [...prompt, ...said.slice(dropped)])
      return said
    }
    answers.push(...(await Promise.all(round.map(one))))
  }
  const statistics = engine.statistics()
  await engine.close()
  return { answers, computed, last, statistics }
}

const turn = fc.record({
  conversation: fc.nat(5),
  tokens: fc.array(fc.integer({ min: 262, max: 286 }), { minLength: 1, maxLength: 30 }),
  count: fc.integer({ min: 1, max: 10 }),
  temperature: fc.constantFrom(0, 1),
  choices: fc.constantFrom(false, false, false, true),
  dropped: fc.constantFrom(0, 0, 2),
})
const rounds = fc.array(
  fc.uniqueArray(turn, {
    selector: ({ conversation }) => conversation,
    maxLength: 3,
    minLength: 1,
  }),
  { minLength: 4, maxLength: 9 },
)

t.test('conversations over few slots say the same with and without tiers', async (t) => {
  for (const kind of ['llama', 'gemma3', 'mamba', 'lfm2'] as const) {
    const total = { with: 0, without: 0, hits: 0 }
    await fc.assert(
      fc.asyncProperty(rounds, async (rounds) => {
        const without = await play(t, kind, rounds, 0)
        const tiers = await play(t, kind, rounds, 64e6)
        t.same(tiers.answers, without.answers)
        total.with += tiers.computed
        total.without += without.computed
        total.hits += tiers.statistics.cache!.ram.hits
      }),
      { numRuns: process.argv.includes('--all') ? 6 : 3, endOnFailure: true },
    )
    t.ok(total.hits > 0, `${total.hits} hits`)
    t.comment(`${kind}: ${total.with} prompt tokens computed, ${total.without} without`)
  }
})

t.test('conversations that outgrow one pool of cells are all served', async (t) => {
  // Each of three at once may grow to 250 tokens, in cells for 512. What they say differs from what they
  // say elsewhere, since a pass adds up its cells in another order.
  const pool = { slots: 4, contextSize: 512, kvTokens: 512 }
  const turn = (conversation: number) => ({
    conversation,
    tokens: Array.from({ length: 30 }, (_, index) => 262 + ((index * 7 + conversation) % 25)),
    count: 60,
    temperature: 1,
    choices: false,
    dropped: 0,
  })
  const rounds = Array.from({ length: 3 }, () => [turn(0), turn(1), turn(2)])
  for (const kind of ['llama', 'gemma3', 'mamba', 'lfm2'] as const) {
    for (const cacheRamBytes of [0, 64e6]) {
      const { answers, statistics } = await play(t, kind, rounds, cacheRamBytes, pool)
      t.ok(answers.every(({ length }) => length === 60))
      t.same(statistics.requests, { done: 9, cancelled: 0, failed: 0, timed_out: 0 })
      t.ok(statistics.preemptions > 0, `${kind}: ${statistics.preemptions} preemptions`)
      t.equal(statistics.kvPool?.tokens, 512)
    }
  }
})

t.test('the next turn of a conversation is not computed from its beginning', async (t) => {
  const plain = { temperature: 0, choices: false, count: 12 }
  const tokens = (count: number, seed: number) =>
    Array.from({ length: count }, (_, index) => 262 + ((index * seed + seed) % 25))
  // The answer is written into the next prompt without its first tokens, as thinking is left out.
  const talk = (conversation: number) => [
    [{ ...plain, conversation, tokens: tokens(230, 3 + conversation), dropped: 3 }],
    [{ ...plain, conversation, tokens: tokens(10, 5), dropped: 3 }],
  ]
  const between = [1, 2, 3].map((conversation) => [
    { ...plain, conversation, tokens: tokens(100, 7 + conversation), dropped: 0 },
  ])
  const [first = [], second = []] = talk(0)
  for (const kind of ['gemma3', 'mamba', 'lfm2'] as const) {
    for (const rounds of [
      [first, second],
      [first, ...between, second],
    ]) {
      const cold = await play(t, kind, rounds, 0)
      const warm = await play(t, kind, rounds, 64e6)
      t.same(warm.answers, cold.answers)
      const whole = 90 + 230 + plain.count - 3 + 10
      const share = warm.last / whole
      t.ok(share <= 0.15, `${kind}: ${warm.last} of ${whole} tokens, ${cold.last} without tiers`)
    }
  }
})

t.test('models that differ in their second file have other states', async (t) => {
  const keyOf = (name: string, second: string) => {
    const files = { 'm-00001-of-00002.gguf': 'metadata', 'm-00002-of-00002.gguf': second }
    const folder = t.testdir({ [name]: files })
    return stateKey([join(folder, name, 'm-00001-of-00002.gguf')], {})
  }
  const one = await keyOf('a', 'weights')
  t.equal(await keyOf('b', 'weights'), one)
  t.not(await keyOf('c', 'WEIGHTS'), one)
})

t.test('of a model in many files hardly more is read than of one in a single file', async (t) => {
  const size = 16 * 2 ** 20
  const files = [...Array(46).keys()].map(
    (index) => `m-${String(index + 1).padStart(5, '0')}-of-00046.gguf`,
  )
  const all = ['m.gguf', ...files]
  const folder = t.testdir(Object.fromEntries(all.map((name) => [name, ''])))
  await Promise.all(all.map((name) => truncate(join(folder, name), size)))
  const readOf = async (name: string): Promise<number> => {
    const hash = createHash('sha256')
    let read = 0
    t.intercept(hash, 'update', {
      value: (data: string | Uint8Array) => {
        read += typeof data === 'string' ? 0 : data.length
        return hash
      },
    })
    await sampleFile(join(folder, name), hash)
    return read
  }
  const [head, sample] = [4 * 2 ** 20, 65_536]
  t.equal(await readOf('m.gguf'), head + 64 * sample)
  t.equal(await readOf(files[0]!), head + 2 * 46 * sample)
})
