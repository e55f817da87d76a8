import { readFile } from 'node:fs/promises'
import type {
  LogitProcessor,
  SamplerContext,
  SamplerDefinition,
  SamplingParams,
  TokenId,
} from '@cllm/core'
import { testSampler } from '@cllm/testing'
import { array, assert, constantFrom, integer, property } from 'fast-check'
import t from 'tap'
import wabt from 'wabt'
import { Candidates } from '../../../src/sampling/chain/candidates/candidates.js'
import { RadixSort } from '../../../src/sampling/chain/candidates/radix-sort.js'
import { createChain, seedAt } from '../../../src/sampling/chain/sampling-chain.js'
import { simdModule } from '../../../src/sampling/chain/scan/simd-module.js'
import {
  blockSize,
  leastLogit,
  VocabularyScan,
} from '../../../src/sampling/chain/scan/vocabulary-scan.js'
import {
  type ChainStep,
  DrawRandom,
  type LogitChange,
} from '../../../src/sampling/chain/steps/draws.js'
import {
  addBiases,
  dry,
  penalties,
  SequenceBreakers,
} from '../../../src/sampling/chain/steps/logit-changes.js'
import {
  minPStep,
  mirostatStep,
  topKStep,
  topNSigmaStep,
  topPStep,
  typicalStep,
  xtcStep,
} from '../../../src/sampling/chain/steps/truncation.js'
import { sampling } from '../../open-tiny.js'
import { noise, peaked } from './logits.js'

const noVocabulary = { bytes: () => new Uint8Array(0), encode: () => [] }

function define(
  name: string,
  create: (context: SamplerContext) => LogitProcessor,
): SamplerDefinition {
  return { name, doc: 'One that is built in.', create: (_, context) => create(context) }
}

const changes: Readonly<Record<string, () => LogitChange>> = {
  'logit bias': () => (logits) => addBiases(logits, [3, 5], [2, -Infinity]),
  penalties: () =>
    penalties(sampling({ repetitionPenalty: 1.5, presencePenalty: 1, frequencyPenalty: 0.3 })),
  dry: () => dry(sampling({ dryMultiplier: 1, dryAllowedLength: 1 }), noVocabulary),
}
for (const [name, create] of Object.entries(changes)) {
  const definition = define(name, () => {
    const change = create()
    return { apply: (logits, { tokens }) => change(logits, tokens) }
  })
  await testSampler(t, definition)
}

const steps: Readonly<Record<string, () => ChainStep>> = {
  'top-k': () => topKStep(7),
  'top-p': () => topPStep(0.9),
  'min-p': () => minPStep(0.05),
  typical: () => typicalStep(0.8),
  'top-nσ': () => topNSigmaStep(1),
  xtc: () => xtcStep(0.5, 0.02, 1),
  mirostat: () => mirostatStep(3, 0.8),
}
for (const [name, create] of Object.entries(steps)) {
  const definition = define(name, ({ seed, tokenizer }) => {
    const scan = new VocabularyScan(tokenizer.vocabularySize)
    const candidates = new Candidates(scan)
    const random = new DrawRandom()
    const step = create()
    return {
      apply(logits, { position }) {
        random.seed(seedAt(seed, position))
        scan.logits.set(logits)
        if (!candidates.begin()) return
        step(candidates, random)
        candidates.list()
        const { ids, size } = candidates
        logits.fill(-Infinity)
        for (const id of ids.subarray(0, size)) logits[id] = scan.logits[id]!
      },
    }
  })
  await testSampler(t, definition)
}

/** The entropy of the likeliest tokens in bits. */
function entropyOf(sorted: readonly number[], count: number, temperature: number): number {
  const weights = sorted
    .slice(0, count)
    .map((logit) => Math.exp((logit - sorted[0]!) / temperature))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.reduce(
    (sum, weight) => sum - (weight === 0 ? 0 : (weight / total) * Math.log2(weight / total)),
    0,
  )
}

t.test('as many tokens as have the expected surprise', async () => {
  assert(
    property(
      constantFrom(1, 30, 3000),
      integer(),
      constantFrom(0, 0.5, 2, 5, 100),
      constantFrom(0.5, 1, 3),
      (size, seed, tau, temperature) => {
        const logits = seed % 2 === 0 ? noise(size, seed, 1) : peaked(size, seed)
        const scan = new VocabularyScan(size)
        scan.logits.set(logits)
        const candidates = new Candidates(scan)
        candidates.begin()
        mirostatStep(tau, temperature)(candidates, new DrawRandom())
        const sorted = [...logits].sort((a, b) => b - a)
        const kept = candidates.size
        const isLow = kept === 1 || entropyOf(sorted, kept, temperature) <= tau + 1e-6
        const isMost = kept === size || entropyOf(sorted, kept + 1, temperature) > tau - 1e-6
        return isLow && isMost && candidates.isSorted
      },
    ),
    { numRuns: 200, seed: 1 },
  )
})

t.test('the outputs of std::mt19937', async (t) => {
  const random = new DrawRandom()
  const first = (seed: number, count: number) => {
    random.seed(seed)
    return Array.from({ length: count }, (_, index) => random.output(index))
  }
  // the standard's default seed, whose 10,000th output it names; these are its first
  t.same(first(5489, 4), [3499211612, 581869302, 3890346734, 3586334585])
  t.same(first(0, 3), [2357136044, 2546248239, 3071714933])
  t.same(first(0xffffffff, 3), [419326371, 479346978, 3918654476])
  t.same(first(5489, 227).length, 227)
  t.throws(() => random.output(227), RangeError)
})

t.test('the numbers that llama.cpp makes of them', async (t) => {
  const random = new DrawRandom()
  random.seed(5489)
  t.equal(random.uniform(), (3499211612 + 581869302 * 2 ** 32) / 2 ** 64)
  t.equal(random.uniform(), (3890346734 + 3586334585 * 2 ** 32) / 2 ** 64)
  t.equal(random.chance(), Math.fround(3499211612) / 2 ** 32, 'of a generator of its own')
  t.equal(random.chance(), Math.fround(581869302) / 2 ** 32)
  random.seed(5489)
  t.equal(random.chance(), Math.fround(3499211612) / 2 ** 32, 'a seed begins anew')
})

const texts = ['a', 'b', 'c', 'aab', 'ba', ': a', '\n', 'x"y', 'q:']
const vocabulary = {
  bytes: (token: TokenId) => new TextEncoder().encode(texts[token] ?? ''),
  encode: (text: string) => Array.from(text, (character) => texts.indexOf(character)),
}

/** The penalties by the definition: the longest suffix that is elsewhere with the token behind it. */
function expected(history: readonly TokenId[], params: SamplingParams): number[] {
  const penalties = texts.map(() => 0)
  const latest = history.slice(-params.dryPenaltyLastN)
  const breaks = (token: TokenId) =>
    params.drySequenceBreakers.some((breaker) => texts[token]!.includes(breaker))
  const end = latest.findLastIndex(breaks)
  const limit = latest.length - 1 - end
  if (latest.length <= params.dryAllowedLength || limit < params.dryAllowedLength) return penalties
  for (let at = 1; at < latest.length; at++) {
    let length = 0
    while (
      length < at &&
      length < limit &&
      latest[at - 1 - length] === latest[latest.length - 1 - length]
    ) {
      length += 1
    }
    const token = latest[at]!
    if (length < params.dryAllowedLength || breaks(token)) continue
    const penalty = params.dryMultiplier * params.dryBase ** (length - params.dryAllowedLength)
    penalties[token] = Math.max(penalties[token]!, penalty)
  }
  return penalties
}

t.test('repetitions are penalized by their length', async () => {
  const token = integer({ min: 0, max: texts.length - 1 })
  const tokens = array(constantFrom(0, 1, 2), { maxLength: 80, size: 'max' })
  const mixed = array(token, { maxLength: 80, size: 'max' })
  for (const history of [tokens, mixed]) {
    assert(
      property(
        history,
        constantFrom(0, 1, 2, 4),
        constantFrom(3, 64, 1000),
        constantFrom(0.5, 2),
        constantFrom<readonly string[]>([], ['\n', ':', '"']),
        (history, dryAllowedLength, dryPenaltyLastN, dryMultiplier, drySequenceBreakers) => {
          const params = sampling({
            dryAllowedLength,
            dryPenaltyLastN,
            dryMultiplier,
            drySequenceBreakers,
            dryBase: 1.5,
          })
          const logits = new Float32Array(texts.length)
          dry(params, vocabulary)(logits, history)
          const penalties = expected(history, params)
          return penalties.every((penalty, token) => {
            const off = Math.abs(logits[token]! + penalty)
            return off <= 1e-6 * penalty
          })
        },
      ),
      { numRuns: 500, seed: 1 },
    )
  }
})

t.test('an endless repetition has a finite penalty', async (t) => {
  const logits = new Float32Array(texts.length)
  const params = sampling({ dryMultiplier: 1, dryPenaltyLastN: 10_000 })
  dry(params, vocabulary)(
    logits,
    Array.from({ length: 3000 }, () => 1),
  )
  t.ok(logits[1]! < -1e37)
  t.ok(Number.isFinite(logits[1]))
})

t.test('whether it is on', async (t) => {
  const isOn = (params: Partial<SamplingParams>) =>
    createChain(sampling(params), 6, noVocabulary).changes.length > 0
  t.notOk(isOn({}))
  t.ok(isOn({ dryMultiplier: 0.8 }))
  t.notOk(isOn({ dryMultiplier: 0.8, dryPenaltyLastN: 0 }))
})

t.test('where breakers begin within tokens', async (t) => {
  const breakers = new SequenceBreakers(vocabulary, ['aab', 'ac', 'ab'])
  const named = (token: TokenId) =>
    breakers
      .tailsOf(token)
      .map((tail) => tail.map((id) => texts[id]).join(' '))
      .toSorted()
  t.same(named(3), [''], 'it is all there')
  t.same(named(0), ['a b', 'b', 'c'], 'each way that it can go on')
  t.same(named(1), [], 'no breaker begins with b')
  t.same(named(4), ['a b', 'b', 'c'], 'the end of a token')
  t.same(named(4), named(4))

  const params = sampling({ dryMultiplier: 1, dryAllowedLength: 1, drySequenceBreakers: ['ac'] })
  const penalized = (history: readonly TokenId[]) => {
    const logits = new Float32Array(texts.length)
    dry(params, vocabulary)(logits, history)
    return texts.filter((_, token) => logits[token]! < 0)
  }
  t.same(penalized([0, 1, 2, 1]), ['c'], 'b c again')
  t.same(penalized([1, 2, 0, 2, 1]), ['c'], 'behind the breaker')
  t.same(penalized([2, 1, 0, 2]), [], 'not beyond it')
})

const sizes = constantFrom(1, 40, 700, 20_000, 140_000)

function begin(size: number, seed: number): { candidates: Candidates; order: number[] } {
  const logits = seed % 2 === 0 ? noise(size, seed, 2) : peaked(size, seed)
  // some equal ones
  for (let id = 0; id < size; id += 5) logits[id] = Math.round(logits[id]!) + 0
  const scan = new VocabularyScan(size)
  scan.logits.set(logits)
  const candidates = new Candidates(scan)
  candidates.begin()
  const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b)
  return { candidates, order }
}

function listed({ ids, size }: Candidates): number[] {
  return [...ids.subarray(0, size)]
}

t.test('the likeliest tokens, in order', async (t) => {
  assert(
    property(
      sizes,
      integer(),
      constantFrom(1, 3, 40, 590, 600, 8192, 60_000),
      (size, seed, count) => {
        const { candidates, order } = begin(size, seed)
        t.equal(candidates.likeliest, order[0])
        candidates.keepTop(count)
        const expected = order.slice(0, count)
        t.equal(candidates.size, expected.length)
        t.ok(candidates.isSorted)
        return same(listed(candidates), expected) && candidates.likeliest === order[0]
      },
    ),
    { numRuns: 60, seed: 1 },
  )
})

t.test('cuts, reorderings and parts', async (t) => {
  assert(
    property(sizes, integer(), (size, seed) => {
      const { candidates, order } = begin(size, seed)
      const { scan } = candidates
      const logitOf = (id: number) => scan.logits[id]!
      const least = logitOf(order[order.length >> 1]!)
      candidates.keepFrom(least)
      const kept = order.filter((id) => logitOf(id) >= least)
      t.ok(
        same(
          listed(candidates),
          kept.toSorted((a, b) => a - b),
        ),
      )
      candidates.sort()
      t.ok(same(listed(candidates), kept))
      candidates.keepFrom(logitOf(kept[kept.length - 1]!) + 0.5)
      t.ok(candidates.isSorted)
      const left = kept.slice(0, candidates.size)
      t.ok(left.every((id) => logitOf(id) >= logitOf(kept.at(-1)!) + 0.5))
      if (left.length < 4) return
      candidates.dropFirst(1)
      t.equal(candidates.largest, logitOf(left[1]!))
      candidates.keep([2, 0], 2)
      t.same(listed(candidates), [left[3], left[1]])
      t.equal(logitOf(candidates.likeliest), logitOf(left[1]!))
      t.notOk(candidates.isSorted)
    }),
    { numRuns: 40, seed: 1 },
  )
})

t.test('sorting any floats', async () => {
  const sort = new RadixSort()
  const anyFloat = integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map((bits) => {
    const [value] = new Float32Array(Int32Array.of(bits).buffer)
    return Number.isNaN(value) ? 0 : value!
  })
  const some = array(anyFloat, { maxLength: 5000, size: 'max' })
  const close = array(constantFrom(-0, 0, 1e-40, -1e-40, 1), { maxLength: 300, size: 'max' })
  for (const values of [some, close]) {
    assert(
      property(values, (values) => {
        const logits = Float32Array.from(values)
        const ids = Int32Array.from(values, (_, index) => index)
        sort.sort(ids, logits, values.length)
        const expected = Float32Array.from(values).sort().reverse()
        return (
          logits.every((logit, index) => logit === expected[index]) &&
          ids.every((id, index) => Math.fround(values[id]!) === logits[index])
        )
      }),
      { numRuns: 60, seed: 1 },
    )
  }
})

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index])
}

t.test('the module is made of its source', async (t) => {
  const folder = new URL('../../../src/sampling/chain/scan/', import.meta.url)
  const text = await readFile(new URL('simd-scan.wat', folder), 'utf8')
  const assembler = await wabt()
  const module = assembler.parseWat('simd-scan.wat', text, { simd: true })
  module.validate()
  const { buffer } = module.toBinary({})
  t.equal(Buffer.from(buffer).toString('base64'), simdModule, 'node assemble-scan.mjs')
})

t.test('a scan finds what a look at each logit finds', async (t) => {
  assert(
    property(
      integer({ min: 1, max: 1000 }),
      integer(),
      constantFrom(0.3, 1, 4),
      (size, seed, deviation) => {
        const logits = seed % 2 === 0 ? noise(size, seed, deviation) : peaked(size, seed)
        for (let token = 0; token < size; token += 17)
          logits[token] = seed % 3 === 0 ? NaN : -Infinity
        const scan = new VocabularyScan(size)
        scan.logits.set(logits)
        const largestOf = (some: Float32Array) =>
          some.reduce((most, logit) => (logit > most ? logit : most), -Infinity)
        const largest = largestOf(logits)
        t.equal(scan.findLargest(), largest)
        if (largest === -Infinity) return
        t.same([...scan.maxima], blocksIn(logits).map(largestOf))
        const weightOf = (logit: number, temperature: number): number => {
          const scaled = Math.fround(logit * (1 / temperature))
          return Math.exp(Math.fround(scaled - Math.fround(largest / temperature)))
        }
        const temperature = Math.fround(0.7)
        for (const from of [leastLogit, largest - 3, largest]) {
          const expected = [...logits.keys()].filter((id) => logits[id]! >= from)
          t.equal(scan.countTokens(from), expected.length)
          const found = new Set(expected.map((id) => Math.floor(id / blockSize)))
          t.equal(scan.countBlocks(from), found.size)
          const count = scan.collect(from)
          t.same([...scan.ids.subarray(0, count)], expected)
          t.same(
            [...scan.listed.subarray(0, count)],
            expected.map((id) => logits[id]),
          )
          const total = scan.weigh(from, temperature, Math.fround(largest / temperature))
          const weights = Float64Array.from(logits, (logit, id) =>
            found.has(Math.floor(id / blockSize)) && logit > -Infinity
              ? weightOf(logit, temperature)
              : 0,
          )
          const sums = blocksIn(weights).map((some) => some.reduce((sum, one) => sum + one, 0))
          t.ok(
            near(
              total,
              sums.reduce((sum, one) => sum + one, 0),
            ),
            'total',
          )
          t.ok(
            sums.every((sum, block) => near(scan.sums[block]!, sum)),
            'sums',
          )
          t.ok(
            weights.every((weight, id) => weight === 0 || near(scan.weights[id]!, weight)),
            'weights',
          )
        }
        scan.weigh(leastLogit, 1, largest)
        const inOrder = scan.weights.reduce((sum, weight) => Math.fround(sum + weight), 0)
        t.equal(scan.addSingly(), inOrder, 'as if all were added')
        const listed = scan.listed.slice(0, scan.collect(leastLogit))
        t.ok(
          near(
            scan.weighListed(listed.length, 1, largest),
            listed.reduce((sum, logit) => sum + weightOf(logit, 1), 0),
          ),
          'of lists',
        )
      },
    ),
    { numRuns: 40, seed: 1 },
  )
})

/** What each block of a vocabulary has. */
function blocksIn<Values extends Float32Array | Float64Array>(values: Values): Values[] {
  const starts = [...values.keys()].filter((id) => id % blockSize === 0)
  return starts.map((start) => values.slice(start, start + blockSize) as Values)
}

/** Equal but for rounding in single precision, and for what is as good as nothing. */
function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1.2e-7 * Math.abs(a) + 1e-36
}

t.test('at least so many tokens stay', async (t) => {
  const logits = Float32Array.from([5, 1, 4, 3, 2, 0])
  const left = (step: ChainStep): number[] => {
    const scan = new VocabularyScan(logits.length)
    scan.logits.set(logits)
    const candidates = new Candidates(scan)
    candidates.begin()
    const random = new DrawRandom()
    random.seed(1)
    step(candidates, random)
    candidates.list()
    return [...candidates.ids.subarray(0, candidates.size)].toSorted((a, b) => a - b)
  }
  const made: readonly ((least: number) => ChainStep)[] = [
    (least) => topPStep(0.1, least),
    (least) => minPStep(0.9, least),
    (least) => typicalStep(0.01, least),
  ]
  for (const create of made) {
    t.equal(left(create(0)).length, 1)
    t.equal(left(create(1)).length, 1)
    t.equal(left(create(3)).length, 3)
    t.equal(left(create(9)).length, 6, 'all that there are')
  }
  t.same(left(minPStep(0.9, 3)), [0, 2, 3], 'the likeliest ones')
  t.same(left(minPStep(0.1, 2)), [0, 2, 3], 'more where there are more')
  t.same(left(xtcStep(1, 0.05, 1)), [1, 3, 4, 5], 'without the likeliest two')
  t.same(left(xtcStep(1, 0.05, 1, 4)), [1, 3, 4, 5])
  t.same(left(xtcStep(1, 0.05, 1, 5)), [0, 1, 2, 3, 4, 5], 'or all')
})

t.test('penalties look at as many tokens as they are told to', async (t) => {
  const penalized = (penaltyLastN: number): number[] => {
    const logits = new Float32Array(6)
    const params = sampling({ presencePenalty: 1, penaltyLastN })
    for (const change of createChain(params, 6, noVocabulary).changes) {
      change(logits, [1, 2, 3, 4])
    }
    return [...logits.keys()].filter((id) => logits[id] !== 0)
  }
  t.same([0, 1, 3, 64].map(penalized), [[], [4], [2, 3, 4], [1, 2, 3, 4]])
})

t.test('typical: a token without any probability tells nothing', async (t) => {
  const size = 200
  const left = (scan: VocabularyScan, unlikely: number): number[] => {
    scan.logits.set(
      Float32Array.from({ length: size }, (_, id) => (id === size - 1 ? unlikely : -id / 40)),
    )
    const candidates = new Candidates(scan)
    candidates.begin()
    typicalStep(0.3, 1)(candidates, new DrawRandom())
    return listed(candidates)
  }
  const scan = new VocabularyScan(size)
  t.same(left(scan, -110), left(scan, -30), 'its logarithm is −∞')
  t.not(left(scan, -110)[0], 0, 'the likeliest is not the most typical')
})
