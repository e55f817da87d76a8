import t from 'tap'
import { askedConstraints } from '../../../src/protocols/openai/openai-fields.js'

t.test('a choice may have any sign', (t) => {
  const [asked] = askedConstraints({ guided_choice: ['yes', '\0"\\\n'] })
  const grammar = String.raw`root ::= "yes" | "\u0000\u0022\u005c\u000a"`
  t.same(asked, { field: 'guided_choice', constraint: { type: 'gbnf', grammar } })
  t.end()
})
