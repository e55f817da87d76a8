import { ngramProposer, type TokenId } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'

const begin = (options = {}) =>
  ngramProposer.create({ longest: 4, shortest: 2, ...options }).begin({})!

t.test('it guesses that the text goes on as before', async (t) => {
  t.same(begin().propose([1, 2, 3, 4, 5, 9, 1, 2, 3], 3), { tokens: [4, 5, 9], kind: 2 })
  t.same(begin().propose([1, 2, 3], 3), { tokens: [] }, 'nothing was there before')
  t.same(begin().propose([7, 1, 8, 1], 3), { tokens: [] }, 'one token is too little')
  t.same(begin({ shortest: 1 }).propose([7, 1, 8, 1], 1).tokens, [8], 'unless it is enough')
  t.same(begin().propose([1, 2, 1, 2, 1, 2], 5).tokens, [1, 2, 1, 2, 1], 'a loop goes on')
  t.same(begin().propose([1, 2, 3, 0, 1, 2, 4, 0, 1, 2], 1).tokens, [4], 'the latest place counts')
  const longer = [5, 1, 2, 3, 0, 6, 1, 2, 4, 0, 5, 1, 2]
  t.same(begin().propose(longer, 1).tokens, [3], 'the longest match counts more')
})

t.test('it finds what a search through all tokens finds', async (t) => {
  const few = fc.array(fc.nat(4), { minLength: 1, maxLength: 200 })
  const property = fc.property(few, (tokens) => {
    const drafter = begin({ longest: 3, shortest: 3 })
    for (let end = 1; end <= tokens.length; end++) {
      const now = tokens.slice(0, end)
      const { tokens: guess } = drafter.propose(now, 1)
      const expected = search(now)
      // A displaced n-gram is not found, and none is found that is not there.
      if (guess.length > 0 && guess[0] !== expected) return false
    }
    return true
  })
  fc.assert(property, { numRuns: 200 })
  t.pass('the same, or nothing')
})

/** What followed the latest earlier place of the last three tokens. */
function search(tokens: readonly TokenId[]): TokenId | undefined {
  const last = tokens.slice(-3).join()
  for (let end = tokens.length - 1; end >= 3; end--) {
    if (tokens.slice(end - 3, end).join() === last) return tokens[end]
  }
  return undefined
}

t.test('it takes little time for each token, however many there are', async (t) => {
  const drafter = begin()
  const tokens: TokenId[] = Array.from({ length: 100_000 }, (_, at) => (at * at) % 9973)
  drafter.propose(tokens, 16)
  const began = process.cpuUsage()
  for (let count = 0; count < 1000; count++) {
    tokens.push(count)
    drafter.propose(tokens, 16)
  }
  const { user } = process.cpuUsage(began)
  t.ok(user < 1000 * 500, `${user / 1000} µs a token`)
})
