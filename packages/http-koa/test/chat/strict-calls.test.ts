import t from 'tap'
import { createAnswerParser } from '../../src/chat/answer/create-answer-parser.js'
import type { CallFormat } from '../../src/chat/format/chat-format.js'
import { bareCalls, commonCalls } from '../../src/chat/format/common-calls.js'
import { harmonyFormat } from '../../src/chat/format/harmony.js'
import { forcedCalls } from '../../src/chat/forced-calls.js'
import { strictCalls } from '../../src/chat/strict-calls.js'

const tools = [
  { type: 'function' as const, function: { name: 'add', parameters: { type: 'object' } } },
]
const json = '{"name":"add","arguments":{"a":1}}'

const tagged: CallFormat = {
  section: '<tools>',
  head: '<call name="\u0002">',
  arguments: {
    kind: 'tagged',
    marks: { open: '<p=', value: '>', close: '</p>', before: '', after: '' },
  },
  closings: ['</call>', '</tools>'],
}
const listed: CallFormat = {
  section: '',
  head: '[TOOL_CALLS]',
  arguments: { kind: 'object', nameKey: 'name', argumentsKey: 'arguments', isList: true },
  closings: [],
}

t.test('strict calls are JSON behind the mark with which the model begins one', async (t) => {
  const cases: [own: readonly CallFormat[], answer: string, trigger: string][] = [
    [[commonCalls[0]!], `So.<tool_call>${json}</tool_call>`, 'So.<tool_call>'],
    [[tagged], `So.<tools>${json}</tools>`, 'So.<tools>'],
    [[listed], `So.[TOOL_CALLS][${json}]`, 'So.[TOOL_CALLS]'],
    [
      [harmonyFormat.own!],
      `<|channel|>commentary to=functions.${json}`,
      '<|channel|>commentary to=functions.',
    ],
    [[], json, ''],
  ]
  for (const [own, answer, begin] of cases) {
    const known = own.length === 0 ? bareCalls : [...own, ...commonCalls, ...bareCalls]
    const format = { own: own[0], calls: known, frame: { open: '', closings: [] } }
    const form = { tools, format, thinks: false, thinkingIsOpen: false }
    const { constraint, call } = strictCalls(tools, ['add'], form)
    if (constraint.type !== 'triggered-json') throw new Error(constraint.type)
    const match = new RegExp(constraint.trigger).exec(answer)
    t.equal(match?.[0], begin, 'the constraint begins where the JSON does')
    const parser = createAnswerParser({ ...form, format: { ...format, calls: [call] } })
    const parts = [...parser.push(answer), ...parser.end()]
    const calls = parts.flatMap((part) => (part.type === 'call' ? [part.call] : []))
    t.same(calls, [{ name: 'add', arguments: '{"a":1}' }], answer)
  }
})

t.test('a forced call comes behind the thoughts that the prompt opens', async (t) => {
  const thinking = { open: '<think>', close: '</think>' }
  const format = {
    calls: [...commonCalls, ...bareCalls],
    thinking,
    frame: { open: '', closings: [] },
  }
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  const forms = [false, true].map((thinkingIsOpen) => ({
    tools,
    format,
    thinks: true,
    thinkingIsOpen,
  }))
  const [closed, open] = forms.map((form) => forcedCalls({ prompt, form }, tools))
  t.match(closed, { form: { thinks: false }, constraint: { type: 'json-schema' } })
  t.match(open, {
    form: { thinks: true, thinkingIsOpen: true },
    constraint: { type: 'triggered-json' },
    afterThinking: { type: 'json-schema' },
  })
  const { trigger } = open!.constraint as { trigger: string }
  const answer = `I should add.</think>${json}`
  t.equal(new RegExp(trigger).exec(answer)?.[0], 'I should add.</think>')
  const parser = createAnswerParser(open!.form)
  t.match(
    [...parser.push(answer), ...parser.end()],
    [
      { type: 'reasoning', text: 'I should add.' },
      { type: 'call', call: { name: 'add' } },
    ],
  )
})
