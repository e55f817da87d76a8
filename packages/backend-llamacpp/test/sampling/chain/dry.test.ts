import type { SamplingParams, TokenId } from '@cllm/core'
import { array, assert, constantFrom, integer, property } from 'fast-check'
import t from 'tap'
import { Dry } from '../../../src/sampling/chain/steps/dry.js'
import { SequenceBreakers } from '../../../src/sampling/chain/steps/sequence-breakers.js'
import { sampling } from '../../open-tiny.js'

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
          new Dry(params, vocabulary).apply(logits, history)
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
  new Dry(params, vocabulary).apply(
    logits,
    Array.from({ length: 3000 }, () => 1),
  )
  t.ok(logits[1]! < -1e37)
  t.ok(Number.isFinite(logits[1]))
})

t.test('whether it is on', async (t) => {
  t.notOk(Dry.isOn(sampling()))
  t.ok(Dry.isOn(sampling({ dryMultiplier: 0.8 })))
  t.notOk(Dry.isOn(sampling({ dryMultiplier: 0.8, dryPenaltyLastN: 0 })))
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
    new Dry(params, vocabulary).apply(logits, history)
    return texts.filter((_, token) => logits[token]! < 0)
  }
  t.same(penalized([0, 1, 2, 1]), ['c'], 'b c again')
  t.same(penalized([1, 2, 0, 2, 1]), ['c'], 'behind the breaker')
  t.same(penalized([2, 1, 0, 2]), [], 'not beyond it')
})
