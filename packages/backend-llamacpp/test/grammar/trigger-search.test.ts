import { array, assert, constantFrom, property } from 'fast-check'
import t from 'tap'
import { TriggerSearch } from '../../src/grammar/trigger-search.js'

const thoughts = '(?:\\s*<think>[\\s\\S]*?</think>|(?!\\s*<think>))'
const patterns = [
  '<tool_call>',
  `^${thoughts}[\\s\\S]*?<tool_call>`,
  '^[\\s\\S]*?</think>[\\s\\S]*?<tool_call>',
  `^${thoughts}\\s*(?=\\{)`,
  '^[\\s\\S]*?</think>\\s*(?=\\[)',
  '(?=[\\s\\S]*x)a',
  'a$|b',
  'a(?!b)',
  'a\\b',
]
const pieces = [
  '<tool_call>',
  '<tool',
  '_call>',
  '</think>',
  '<think>',
  ' ',
  '{',
  '[',
  'a',
  'x',
  'b',
]

/** One token for each piece. */
const vocabulary = { bytes: (token: number) => new TextEncoder().encode(pieces[token]) }

t.test('a trigger is found with the token that completes it', (t) => {
  const tokens = array(constantFrom(...pieces.keys()), { maxLength: 10 })
  for (const pattern of patterns) {
    assert(
      property(tokens, (output) => {
        const search = new TriggerSearch(vocabulary, new RegExp(pattern))
        for (let length = 1; length <= output.length; length++) {
          const text = output
            .slice(0, length)
            .map((token) => pieces[token])
            .join('')
          const isThere = new RegExp(pattern).test(text)
          if ((search.find(output.slice(0, length)) !== undefined) !== isThere) return false
          if (isThere) return true
        }
        return true
      }),
      { numRuns: 500, seed: 4 },
    )
    t.pass(pattern)
  }
  t.end()
})

t.test('a long text without the ending of the trigger is not searched again and again', (t) => {
  for (const pattern of patterns.slice(0, 5)) {
    const expression = new RegExp(pattern)
    let searches = 0
    const exec = expression.exec.bind(expression)
    expression.exec = (text) => {
      searches++
      return exec(text)
    }
    const search = new TriggerSearch(vocabulary, expression)
    const output: number[] = []
    for (let count = 0; count < 2000; count++) {
      output.push(pieces.indexOf('</think>'), pieces.indexOf(' '))
      search.find(output)
    }
    t.equal(searches, 0, pattern)
  }
  t.end()
})
