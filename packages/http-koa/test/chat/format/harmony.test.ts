import t from 'tap'
import { createAnswerParser } from '../../../src/chat/answer/create-answer-parser.js'
import { harmonyFormat } from '../../../src/chat/format/known-formats.js'

const tools = [{ type: 'function' as const, function: { name: 'add' } }]
const form = { tools, format: harmonyFormat, thinks: true, thinkingIsOpen: false }

/** What gpt-oss writes, and what of it is text, reasoning and calls. */
const answers: readonly [answer: string, text: string, reasoning: string, calls: number][] = [
  [
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>',
    'Yes.',
    'Hm.',
    0,
  ],
  [
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>',
    '',
    'Hm.',
    1,
  ],
  ['<|channel|>commentary to=functions.add<|message|>{"a":1}', '', '', 1],
  [' to=functions.add<|channel|>commentary json<|message|>{"a":1}<|call|>', '', '', 1],
  [
    '<|channel|>commentary<|message|>I add.<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>',
    'I add.',
    '',
    1,
  ],
  ['<|channel|>final<|message|>Plain.', 'Plain.', '', 0],
  ['No channel at all.', 'No channel at all.', '', 0],
]

t.test('the channels of gpt-oss, cut anywhere', async (t) => {
  for (const [answer, text, reasoning, calls] of answers) {
    for (const size of [1, 7, 1000]) {
      const parser = createAnswerParser(form)
      const pieces = answer.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
      const parts = [...pieces.flatMap((piece) => [...parser.push(piece)]), ...parser.end()]
      const join = (type: 'text' | 'reasoning') =>
        parts.map((part) => (part.type === type ? part.text : '')).join('')
      const made = parts.flatMap((part) => (part.type === 'call' ? [part.call] : []))
      t.same([join('text'), join('reasoning')], [text, reasoning], answer)
      t.same(
        made,
        Array.from({ length: calls }, () => ({ name: 'add', arguments: '{"a":1}' })),
      )
    }
  }
})
