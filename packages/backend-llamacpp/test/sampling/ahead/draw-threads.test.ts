import { readFileSync } from 'node:fs'
import { MessagePort } from 'node:worker_threads'
import { type SamplingParams, SimulatedClock, type TokenId } from '@cllm/core'
import { addressOf } from '../../../src/native/ffi/bind-functions.js'
import type { LogitsContext } from '../../../src/native/native-context.js'
import { ConstraintGrammars } from '../../../src/grammar/constraint-grammars.js'
import { ConstraintTrack } from '../../../src/sampling/constraint-track.js'
import type { SamplerParts } from '../../../src/sampling/token-sampler.js'
import { DrawThreads } from '../../../src/sampling/ahead/draw-threads.js'
import { SharedDrawQueue } from '../../../src/sampling/ahead/shared-draw-queue.js'
import { announceDraws } from '../../../src/sampling/pass-draws.js'
import { ChainSamplers, ChainSampler } from '../../../src/sampling/chain/chain-sampler.js'
import type { Vocabulary } from '../../../src/text/vocabulary.js'
import { recordingLogger, sampling } from '../../open-tiny.js'
import { drawing, noise } from '../chain/logits.js'

import t, { type Test } from 'tap'

const size = 60_000
const shape = { size, endOfGeneration: new Set([3]), check() {} }
const vocabulary = shape as unknown as Vocabulary
const tokenizer = { encode: () => [] }

/** Rows of logits, as a context has them in its memory. */
function contextOf(rows: readonly Float32Array[]) {
  const reads: number[] = []
  const context = {
    logits(index: number) {
      reads.push(index)
      return rows[index]
    },
    logitsAddress: (index: number) => addressOf(rows[index]!) ?? undefined,
  } as unknown as LogitsContext
  return { context, reads }
}

function rowsOf(count: number): readonly Float32Array<ArrayBuffer>[] {
  return Array.from({ length: count }, (_, row) => {
    const logits = new Float32Array(new ArrayBuffer(4 * size))
    logits.set(noise(size, row, 3))
    return logits
  })
}

function openSamplers(t: Test, context: LogitsContext, threads: number) {
  const logger = recordingLogger()
  const samplers = new ChainSamplers(context, vocabulary, tokenizer, threads, logger)
  t.teardown(() => samplers.dispose())
  return { samplers, logger }
}

const kinds: readonly Partial<SamplingParams>[] = [
  { temperature: 0.7, topK: 40, topP: 0.9, ignoreEos: true },
  { temperature: 0 },
  { temperature: 1, topK: 0, minP: 0.05, logitBias: [[7, 12]] },
  { temperature: 0.9, xtcProbability: 0.5, xtcThreshold: 0.1 },
  { temperature: 0.9, mirostat: 2 },
  { repetitionPenalty: 1.3 }, // needs the tokens before: only its own thread can draw
]

const texts = Array.from({ length: size }, (_, token) =>
  Buffer.from(token % 3 === 0 ? 'x' : String(token)),
)
const starts = Uint32Array.of(0, ...texts.map(({ length }) => length))
for (let token = 0; token < size; token++) starts[token + 1]! += starts[token]!
const spelled = {
  ...shape,
  bytes: (token: number) => texts[token]!,
  texts: { bytes: Buffer.concat(texts), starts },
} as unknown as Vocabulary
const grammars = new ConstraintGrammars(spelled, () => [])

/** Keeps to digits, which two thirds of the tokens are, from the first sequence that is not alone of its kind on. */
function partsOf(row: number): SamplerParts {
  if (row < kinds.length) return {}
  const grammar = grammars.of({ type: 'gbnf', grammar: 'root ::= [0-9]*' })
  return { constraint: new ConstraintTrack(grammar, spelled, [1], 1) }
}

t.test('several threads draw what one draws', async (t) => {
  const rows = rowsOf(12)
  const { context, reads } = contextOf(rows)
  const { samplers, logger } = openSamplers(t, context, 2)
  const { workspace, drawFrom } = drawing(vocabulary)
  const params = rows.map((_, row) => sampling({ ...kinds[row % kinds.length], seed: row }))
  const made = params.map((one, row) => samplers.create(one, [1], partsOf(row)))
  let drawnElsewhere = 0
  // The threads start while the rounds go on.
  for (let round = 0; round < 10 || drawnElsewhere === 0; round++) {
    const tokens = Array.from({ length: round + 1 }, () => 5)
    const count = 1 + (round % rows.length)
    reads.length = 0
    const expected = rows.slice(0, count).map((logits, row): TokenId => {
      const alone = new ChainSampler(workspace, params[row]!, [1], partsOf(row))
      return drawFrom(alone, logits, round, 0, tokens)
    })
    for (const sampler of made.slice(0, count)) sampler.prepare(round, 0, tokens)
    if (round % 2 === 1) samplers.threads?.announce?.()
    samplers.drawAhead!(made.slice(0, count).map((sampler, index) => ({ sampler, index })))
    t.same(
      made.slice(0, count).map((sampler, index) => sampler.draw(index)),
      expected,
    )
    drawnElsewhere += count - reads.length
    // Asking again at once would take the time that they need to start.
    if (drawnElsewhere === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  }
  for (const sampler of made) sampler.dispose()
  const again = samplers.create(params[0]!, [1])
  again.prepare(0, 0, [1])
  const alone = new ChainSampler(workspace, params[0]!, [1])
  t.equal(again.draw(0), drawFrom(alone, rows[0]!, 0, 0, [1]))
  t.same(logger.lines, [])
})

t.test('what cannot be drawn fails where it is drawn, and no other', (t) => {
  const rows = rowsOf(6)
  rows[2]!.fill(-Infinity)
  const { context } = contextOf(rows)
  const { samplers } = openSamplers(t, context, 2)
  const made = rows.map((_, row) => samplers.create(sampling({ temperature: 0, seed: row }), [1]))
  for (const sampler of made) sampler.prepare(0, 0, [1])
  samplers.drawAhead!(made.map((sampler, index) => ({ sampler, index })))
  t.throws(() => made[2]!.draw(2), /no token can be drawn/)
  t.equal(made[0]!.draw(0), rows[0]!.indexOf(Math.max(...rows[0]!)))
  t.end()
})

t.test('draws are announced shortly before a pass ends, where that is known', (t) => {
  const clock = new SimulatedClock()
  let announced = 0
  const announce = () => void announced++
  const start = clock.now()
  t.equal(announceDraws(announce, clock, NaN), undefined)
  announceDraws(announce, clock, start + 10)
  const cancel = announceDraws(announce, clock, start + 10)
  cancel?.()
  clock.advance(1)
  t.equal(announced, 0)
  clock.advance(8.9)
  t.equal(announced, 1)
  t.end()
})

t.test('a thread that comes late takes nothing of a later round', (t) => {
  const queue = new SharedDrawQueue()
  const late = new SharedDrawQueue(queue.memory)
  const one = (sampler: number) => ({ sampler, position: 0, address: 0n })
  const nothing = () => {
    t.fail('nothing is left')
    return 0
  }
  queue.begin([one(1), one(2)], 1)
  const drawn: number[] = []
  const draw = ({ sampler }: { readonly sampler: number }) => {
    drawn.push(sampler)
    return 10 + sampler
  }
  queue.drawAll(draw)
  t.ok(queue.waitForAll(0))
  late.drawAll(nothing)
  queue.begin([one(3), one(4), one(5)], 1)
  late.drawAll(draw)
  queue.drawAll(nothing)
  t.ok(queue.waitForAll(0))
  t.same(
    [0, 1, 2].map((nth) => queue.token(nth)),
    [13, 14, 15],
  )
  t.same(drawn, [1, 2, 3, 4, 5])
  queue.begin([one(6)], 1)
  t.notOk(queue.waitForAll(1), 'nobody has drawn')
  t.end()
})

t.test('few draws are made alone, and none after the end', async (t) => {
  const logger = recordingLogger()
  const threads = new DrawThreads(1, size, logger)
  const draws = Array.from({ length: 4 }, () => ({
    sampler: 1,
    position: 0,
    address: 0n,
    draw: () => 5,
  }))
  t.equal(threads.draw(draws.slice(0, 2)), undefined)
  t.same(threads.draw(draws), [5, 5, 5, 5], 'an unknown sampler is drawn here')
  await threads.dispose() // while they start
  await threads.dispose()
  t.equal(threads.draw(draws), undefined)
})

t.test('the threads are told of what they draw, and of nothing else', async (t) => {
  const logger = recordingLogger()
  const threads = new DrawThreads(1, size, logger)
  t.teardown(() => threads.dispose())
  const settings = { params: sampling({ temperature: 0 }) }
  const draw = (samplers: readonly number[]) =>
    threads.draw(samplers.map((sampler) => ({ sampler, position: 0, address: 0n, draw: () => 5 })))
  draw([-1, -2, -3]) // they start
  const told = t.capture(MessagePort.prototype, 'postMessage', () => {})
  const messages = () => told().map(({ args: [message] }) => message as unknown)
  for (let request = 0; request < 100; request++) threads.remove(threads.add(settings))
  const samplers = [1, 2, 3, 4].map(() => threads.add(settings))
  draw(samplers.slice(0, 2))
  t.same(messages(), [], 'those were drawn alone')
  draw(samplers.slice(1))
  t.same(
    messages(),
    samplers.slice(1).map((sampler) => ({ sampler, settings })),
  )
  for (const sampler of samplers) threads.remove(sampler)
  t.same(messages(), [])
  draw([-1, -2, -3])
  t.same(
    messages(),
    samplers.slice(1).map((sampler) => ({ sampler })),
    'what is gone is forgotten',
  )
})

/** The modules that a source file imports values from, and what these import. */
function loadedBy(file: string, all = new Set<string>()): Set<string> {
  const imports = /^import (?!type )[^']*? from '(.+)'/gm
  for (const [, name = ''] of readFileSync(new URL(file), 'utf8').matchAll(imports)) {
    const isOwn = name.startsWith('.')
    const module = isOwn ? new URL(name.replace(/js$/, 'ts'), file).href : name
    if (all.has(module)) continue
    all.add(module)
    if (isOwn) loadedBy(module, all)
  }
  return all
}

t.test('a thread loads little: each has its own copy of what it loads', (t) => {
  const packagesOf = (file: string): string[] => {
    const { href } = new URL(`../../../src/${file}`, import.meta.url)
    return [...loadedBy(href)].filter((name) => !/^(file|node):/.test(name)).toSorted()
  }
  t.same(packagesOf('sampling/ahead/draw-worker.ts'), ['@cllm/core/hash', 'koffi'])
  const ofCore = ['@cllm/core/defined', '@cllm/core/errors']
  const others = ['@eslint-community/regexpp', 'lru-cache', 'zod']
  t.same(packagesOf('grammar/compile-worker.ts'), [...ofCore, ...others])
  t.end()
})
