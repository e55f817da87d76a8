import { array, assert, constantFrom, property } from 'fast-check'
import t from 'tap'
import { LinearPattern } from '../../../src/grammar/pattern/linear-pattern.js'

t.test('patterns match what regular expressions match', (t) => {
  const characters = ['a', 'b', '.', '[ab]', '[^a]', '\\d', '\\W', '\\p{L}', '[\\p{Lu}b]', '☺']
  const groups = ['(a|b)', '(?:a|ab|)', '(?:(a*)*)', '(?:b+a|)']
  const atoms = constantFrom(...characters, ...groups, '^', '$', '\\b', '\\B')
  const quantified = atoms.chain((atom) =>
    /^[\^$]|^\\[bB]/.test(atom)
      ? constantFrom(atom)
      : constantFrom('', '*', '+', '?', '{2}', '{1,3}', '{0}', '{2,}', '*?').map((q) => atom + q),
  )
  const pattern = array(quantified, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''))
  const patterns = array(pattern, { minLength: 1, maxLength: 2 }).map((ways) => ways.join('|'))
  const text = array(constantFrom('a', 'b', 'A', '1', ' ', '☺', '\n', 'é'), { maxLength: 8 })
  assert(
    property(patterns, text, (source, characters) => {
      const string = characters.join('')
      return (
        new LinearPattern(source).test(string, () => {}) === new RegExp(source, 'u').test(string)
      )
    }),
    { numRuns: 1500, seed: 2 },
  )
  t.end()
})

t.test('the work is linear in the text', (t) => {
  for (const source of ['^(a|a|aa)+$', '^(a+)+$', '^(a*)*b', '(.*)*x', '^(?:a?){30}a{30}$']) {
    const work = (length: number) => {
      let steps = 0
      new LinearPattern(source).test(`${'a'.repeat(length)}!`, (more) => void (steps += more))
      return steps
    }
    t.ok(work(2000) < 2.2 * work(1000), `${source}: ${work(1000)}, ${work(2000)}`)
  }
  t.end()
})

t.test('what has no automaton is refused', (t) => {
  for (const source of [
    '(?=a)b',
    '(?<!a)b',
    '(a)\\1',
    'a{1000}'.repeat(30),
    '(',
    '('.repeat(1e4),
  ]) {
    t.throws(() => new LinearPattern(source), { name: 'Error', message: /./ }, source.slice(0, 20))
  }
  t.end()
})
