import * as fc from 'fast-check'
import t from 'tap'
import { StopMatcher } from '../../../src/engine/requests/stop-matcher.js'

/** The first stop text in a text; of several at one place the longest. */
function firstStop(text: string, stops: readonly string[]) {
  return stops
    .map((stop) => ({ stop, at: text.indexOf(stop) }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => a.at - b.at || b.stop.length - a.stop.length)[0]
}

/** What is left of the pieces, by looking at the whole text again after each. */
function reference(pieces: readonly string[], stops: readonly string[]) {
  let text = ''
  for (const [index, piece] of pieces.entries()) {
    text += piece
    const met = firstStop(text, stops)
    if (met !== undefined) return { text: text.slice(0, met.at), stop: met.stop, used: index + 1 }
  }
  return { text, stop: undefined, used: pieces.length }
}

/** All that is given out, piece by piece. */
function match(pieces: readonly string[], stops: readonly string[]) {
  const matcher = new StopMatcher(stops)
  const given: string[] = []
  for (const piece of pieces) {
    const { text, stop } = matcher.push(piece)
    given.push(text)
    if (stop !== undefined) return { given, stop, rest: matcher.end() }
  }
  return { given, stop: undefined, rest: matcher.end() }
}

t.test('examples', async (t) => {
  const cases: [pieces: string[], stops: string[], given: string[], stop?: string][] = [
    [['a', 'b', ''], [], ['a', 'b', '']],
    [['one STOP two'], ['STOP'], ['one '], 'STOP'],
    [['one S', 'TO', 'P two'], ['STOP'], ['one ', '', ''], 'STOP'],
    [['S', 'S', 'T', 'x'], ['ST'], ['', 'S', ''], 'ST'],
    [['a', 'a', 'a', 'b'], ['aab'], ['', '', 'a', ''], 'aab'],
    [['STO', 'NE'], ['STOP'], ['', 'STONE']],
    [['STO'], ['STOP'], ['', 'STO']],
    [['xab', 'cd'], ['abcde', 'bcd'], ['x', 'a'], 'bcd'],
    [['abc'], ['bc', 'abc', 'ab'], [''], 'abc'],
    [['\n', '\n', 'x'], ['\n\n'], ['', ''], '\n\n'],
    [['a😀', 'b'], ['😀b'], ['a', ''], '😀b'],
    [['', 'STOP'], ['STOP'], ['', ''], 'STOP'],
    [['STOP'], ['STOP'], [''], 'STOP'],
  ]
  for (const [pieces, stops, expected, expectedStop] of cases) {
    const { given, stop, rest } = match(pieces, stops)
    const all = rest === '' ? given : [...given, rest]
    t.same([all, stop], [expected, expectedStop], JSON.stringify({ pieces, stops }))
  }
})

t.test('as if the whole text were looked at after each piece', async () => {
  // Few letters, so that stop texts begin, fail and overlap all the time.
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '😀'), maxLength: 4 })
  const pieces = fc.array(text, { maxLength: 12 })
  const stops = fc.array(
    text.filter((stop) => stop !== ''),
    { maxLength: 4 },
  )
  fc.assert(
    fc.property(pieces, stops, (pieces, stops) => {
      const expected = reference(pieces, stops)
      const { given, stop, rest } = match(pieces, stops)
      if (stop !== expected.stop || given.length !== expected.used) return false
      if (given.join('') + rest !== expected.text) return false
      if (stop !== undefined && rest !== '') return false
      // What is out can never be taken back, and nothing is held back without a reason.
      let out = ''
      let seen = ''
      return given.every((piece, index) => {
        out += piece
        seen += pieces[index] ?? ''
        const held = seen.slice(out.length)
        const isLast = stop !== undefined && index === given.length - 1
        return (
          seen.startsWith(out) &&
          (isLast || held === '' || stops.some((one) => one !== held && one.startsWith(held)))
        )
      })
    }),
    { numRuns: 2000 },
  )
})
