import type { EngineClient, EngineInfo } from '@cllm/core'
import { overriding } from '@cllm/host'
import t from 'tap'
import { type AnswerForm, createAnswerParser } from '../../src/chat/answer/create-answer-parser.js'
import type { CallFormat } from '../../src/chat/format/chat-format.js'
import { bareCalls, commonCalls, harmonyFormat } from '../../src/chat/format/known-formats.js'
import { strictCalls } from '../../src/chat/strict-calls.js'
import { planAnswer } from '../../src/chat/plan-answer.js'
import { prepareChat } from '../../src/chat/prepare-chat.js'

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

const readAll = (form: AnswerForm, answer: string) => {
  const parser = createAnswerParser(form)
  return [...parser.push(answer), ...parser.end()]
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

t.test("references of a tool's arguments are meant from their own root", (t) => {
  const parameters = { properties: { x: { $ref: '#/$defs/x' } }, $defs: { x: { type: 'object' } } }
  const both = (['one', 'two', 'three'] as const).map((name, index) => {
    const $id = [undefined, '#no-address', 'https://own.example/'][index]
    return { type: 'function' as const, function: { name, parameters: { ...parameters, $id } } }
  })
  const format = { calls: bareCalls, frame: { open: '', closings: [] } }
  const form = { tools: both, format, thinks: false, thinkingIsOpen: false }
  const { constraint } = strictCalls(both, ['one', 'two', 'three'], form)
  t.match(constraint, {
    schema: {
      anyOf: both.map(({ function: { name } }) => ({
        properties: {
          name: { const: name },
          arguments: {
            ...parameters,
            $id: name === 'three' ? 'https://own.example/' : `tool:${name}`,
          },
        },
      })),
    },
  })
  t.end()
})

t.test('a mark that holds the name has the arguments of its own tool behind it', (t) => {
  const greet = { name: 'greet', parameters: { type: 'object', properties: { who: {} } } }
  const both = [...tools, { type: 'function' as const, function: greet }]
  const named = (head: string, closings: readonly string[]): CallFormat => ({
    section: '',
    head,
    arguments: { kind: 'json' },
    closings,
  })
  const marks = { open: '<p=', value: '>', close: '</p>', before: '', after: '' }
  const cases: [own: CallFormat, begin: string, answer: string, closing: string | undefined][] = [
    [
      named('<function=\u0002>', ['</function>', '<|eom|>']),
      'So.<function=',
      'So.<function=greet>{"who":1}</function>',
      '</function>',
    ],
    [
      {
        ...named('<function name="\u0002">', ['</function>']),
        arguments: { kind: 'tagged', marks },
      },
      'So.<function name="',
      'So.<function name="greet">{"who":1}</function>',
      '</function>',
    ],
    [named('\u0002', ['>>>']), '', 'greet\n{"who":1}', undefined],
  ]
  for (const [own, begin, answer, closing] of cases) {
    const format = {
      own,
      calls: [own, ...commonCalls, ...bareCalls],
      frame: { open: '', closings: [] },
    }
    const form = { tools: both, format, thinks: false, thinkingIsOpen: false }
    const { constraint, call } = strictCalls(both, ['greet'], form)
    if (constraint.type !== 'triggered-json') throw new Error(constraint.type)
    t.equal(new RegExp(constraint.trigger).exec(answer)?.[0], begin)
    t.same([constraint.schema, constraint.or?.schema], [{ type: 'object' }, greet.parameters])
    t.same([constraint.closing, constraint.or?.closing], [closing, closing])
    const before = new RegExp(`^${constraint.or?.before}`)
    t.match(answer.slice(begin.length).replace(before, ''), /^\s?\{/)
    const read = readAll({ ...form, format: { ...format, calls: [call] } }, answer)
    t.same(
      read.flatMap((part) => (part.type === 'call' ? [part.call] : [])),
      [{ name: 'greet', arguments: '{"who":1}' }],
    )
  }
  t.end()
})

/** A tokenizer of words, some of which are control tokens. */
const clientWith = (control: RegExp = /^$/) => {
  const model = {}
  return {
    tokenize: async (text: string) => [text],
    detokenize: async ([text]: string[]) => (control.test(text!) ? '' : text),
    info: async () => ({ model, capabilities: { grammar: true } }),
  } as unknown as EngineClient
}

t.test("a forced call comes behind the thoughts, in the model's own words", async (t) => {
  const thinking = { open: '<think>', close: '</think>' }
  const own = commonCalls[0]!
  const format = {
    own,
    calls: [...commonCalls, ...bareCalls],
    thinking,
    frame: { open: '', closings: [] },
  }
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  const form = (thinkingIsOpen: boolean) => ({ tools, format, thinks: true, thinkingIsOpen })
  const force = async (given: object, control?: RegExp) =>
    await planAnswer(
      clientWith(control),
      { prompt, form: form(false), ...given },
      { forced: { tools, several: false } },
    )
  const wholly = (pattern: string, text: string) => new RegExp(`^(?:${pattern})$`).test(text)

  const closed = await force({})
  t.match(closed, {
    form: { thinks: true },
    constraint: { type: 'json-schema', closing: '</tool_call>' },
  })
  const { before = '' } = closed.constraint as { before?: string }
  for (const text of ['<tool_call>', '<think>\nIs 1 < 2?\n</think>\n\n<tool_call>']) {
    t.ok(wholly(before, text), text)
  }
  for (const text of ['', 'a<tool_call>', '<think></think>a<tool_call>']) {
    t.notOk(wholly(before, text), text)
  }
  const unthinking = { ...prompt, template: { variables: { enable_thinking: false } } }
  const direct = await force({ prompt: unthinking })
  t.match(direct, { form: { thinks: false } })
  t.notOk(wholly((direct.constraint as { before: string }).before, '<think></think><tool_call>'))

  const open = await force({ form: form(true) })
  t.match(open, {
    form: { thinks: true, thinkingIsOpen: true },
    constraint: { type: 'triggered-json', before: String.raw`\s{0,3}<tool_call>` },
  })
  const { trigger } = open.constraint as { trigger: string }
  const answer = `I should add.</think><tool_call>${json}</tool_call>`
  t.equal(new RegExp(trigger).exec(answer)?.[0], 'I should add.</think>')
  const parser = createAnswerParser(open.form)
  t.match(
    [...parser.push(answer), ...parser.end()],
    [
      { type: 'reasoning', text: 'I should add.' },
      { type: 'call', call: { name: 'add' } },
    ],
  )

  // a grammar does not know control tokens: then the call is bare JSON, or comes without thoughts
  const bare = await force({}, /tool_call/)
  t.match(bare.constraint, { before: undefined, closing: undefined })
  const marked = await force({}, /think/)
  t.match([marked.form.thinks, marked.constraint], [false, { closing: '</tool_call>' }])
  const listing = await force({ form: { ...form(false), format: { ...format, own: listed } } })
  t.match(listing.constraint, { schema: { type: 'array', minItems: 1, maxItems: 1 } })
})

t.test('several calls may be forced, in the format of each family', async (t) => {
  const object = { kind: 'object', nameKey: 'name', argumentsKey: 'arguments' } as const
  const semicolon = { section: '', head: '<|python_tag|>', arguments: object, closings: [';'] }
  const unclosed = { section: '', head: '<|tool_call|>', arguments: object, closings: [] }
  const cases: [own: CallFormat | undefined, answer: string, next: string | undefined][] = [
    [
      commonCalls[0],
      `<tool_call>${json}</tool_call>\n<tool_call>${json}</tool_call>`,
      '<tool_call>',
    ],
    [tagged, `<tools>${json}</tools><tools>${json}</tools>`, '<tools>'],
    [listed, `[TOOL_CALLS][${json},${json}]`, undefined],
    [semicolon, `<|python_tag|>${json};${json}`, ';'],
    [unclosed, `<|tool_call|>${json}<|tool_call|>${json}`, '<|tool_call|>'],
    [undefined, `${json};${json}`, ';'],
  ]
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  for (const [own, answer, next] of cases) {
    const format = { own, calls: [...commonCalls, ...bareCalls], frame: { open: '', closings: [] } }
    const form = { tools, format, thinks: false, thinkingIsOpen: false }
    const forced = await planAnswer(
      clientWith(),
      { prompt, form },
      { forced: { tools, several: true } },
    )
    t.equal((forced.constraint as { next?: string }).next, next, answer)
    t.notMatch(forced.constraint, { schema: { maxItems: 1 } })
    const parser = createAnswerParser(forced.form)
    const parts = Array.from(answer).flatMap((sign) => [...parser.push(sign)])
    const calls = [...parts, ...parser.end()].filter(({ type }) => type !== 'text')
    t.match(calls, [{ call: { name: 'add' } }, { call: { arguments: '{"a":1}' } }], answer)
    const single = await planAnswer(
      clientWith(),
      { prompt, form },
      { forced: { tools, several: false } },
    )
    t.equal((single.constraint as { next?: string }).next, undefined)
    const unsaid = await planAnswer(clientWith(), { prompt, form }, { forced: { tools } })
    t.equal((unsaid.constraint as { next?: string }).next, own && next, 'in its own words alone')
  }
})

const inTag: CallFormat = {
  section: '',
  head: '<function=\u0002>',
  arguments: { kind: 'json' },
  closings: ['</function>'],
}

t.test("a mark that holds the tool's name stands before no JSON that has it", async (t) => {
  const format = {
    own: inTag,
    calls: [inTag, ...bareCalls],
    frame: { open: '', closings: [] },
  }
  const form = { tools, format, thinks: false, thinkingIsOpen: false }
  const { constraint, call } = strictCalls(tools, ['add'], form)
  t.match([constraint, call.head], [{ trigger: /<function=$/, before: 'add>' }, inTag.head])
  t.notOk(JSON.stringify(constraint).includes('0002'), 'no sign that no token has')
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  const forced = await planAnswer(clientWith(), { prompt, form }, { forced: { tools } })
  t.match(forced.constraint, { type: 'json-schema', before: undefined })
  const parser = createAnswerParser(forced.form)
  t.match([...parser.push(json), ...parser.end()], [{ type: 'call', call: { name: 'add' } }])
  const after = { ...inTag, head: '<function=\u0002><args>' }
  const { call: behind } = strictCalls(tools, ['add'], {
    ...form,
    format: { ...format, own: after, calls: [after] },
  })
  t.equal(behind.head, '<args>')
})

t.test('what is written by force has few blanks, and ids as long as are read', async (t) => {
  const own: CallFormat = { ...commonCalls[0]!, head: '<call id=\u0001>\n' }
  const format = { own, calls: [own], frame: { open: '', closings: [] } }
  const form = { tools, format, thinks: false, thinkingIsOpen: false }
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  const { constraint } = await planAnswer(clientWith(), { prompt, form }, { forced: { tools } })
  const { before = '' } = constraint as { before?: string }
  const takes = (text: string) => new RegExp(`^(?:${before})$`).test(text)
  t.ok(takes('\n\n<call id=7>\n'))
  t.notOk(takes(`${'\n'.repeat(50)}<call id=7>\n`))
  t.notOk(takes(`<call id=7>${'\n'.repeat(50)}`))
  t.ok(takes(`<call id=${'7'.repeat(96)}>`))
  t.notOk(takes(`<call id=${'7'.repeat(97)}>`))
})

t.test('JSON beside tools is an answer of that form, or a call', async (t) => {
  const frame = { open: '', closings: [] }
  const format = { own: commonCalls[0]!, calls: [...commonCalls, ...bareCalls], frame }
  const form = { tools, format, thinks: false, thinkingIsOpen: false }
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  const schema = { type: 'object', properties: { b: {} } }
  const asked = [{ field: 'response_format', constraint: { type: 'json-schema', schema } as const }]
  for (const prepared of [
    { prompt, form },
    { prompt, form, strict: ['add'] },
  ]) {
    const held = await planAnswer(clientWith(), prepared, { asked })
    t.match(held.constraint, {
      type: 'json-schema',
      schema,
      or: { before: String.raw`\s{0,3}<tool_call>`, closing: '</tool_call>' },
    })
    t.match(readAll(held.form, `<tool_call>${json}</tool_call>`), [{ call: { name: 'add' } }])
    t.match(readAll(held.form, '{"b": 1}'), [{ type: 'text', text: '{"b": 1}' }])
    const bare = await planAnswer(clientWith(/tool_call/), prepared, { asked })
    t.match(bare.constraint, { schema, or: { before: undefined } }, 'marks that are no text')
    t.match(readAll(bare.form, json), [{ call: { name: 'add' } }])
  }
  const forced = await planAnswer(clientWith(), { prompt, form }, { forced: { tools } })
  const called = await planAnswer(clientWith(), { prompt, form }, { asked, forced: { tools } })
  t.same(called.constraint, forced.constraint, 'a call that is forced is no answer')
  const grammar = [{ field: 'grammar', constraint: { type: 'gbnf', grammar: 'a' } as const }]
  for (const [fields, more] of [
    [[...asked, ...grammar], undefined],
    [grammar, { tools }],
  ] as const) {
    await t.rejects(planAnswer(clientWith(), { prompt, form }, { asked: fields, forced: more }), {
      code: 'invalid_request',
      message: /expected nothing beside/,
    })
  }
})

t.test('strict calls are held to behind thoughts that were ended', async (t) => {
  const info = {
    model: { details: { chatTemplate: 'strict <think></think>' } },
    capabilities: { grammar: true },
  } as unknown as EngineInfo
  const client = overriding(clientWith(), {
    info: async () => info,
    async applyTemplate(messages, { addGenerationPrompt = true } = {}) {
      const turns = messages.map(({ role, content }) => `<|${role}|>${content}<|end|>`)
      const text = turns.join('') + (addGenerationPrompt ? '<|assistant|><think>\n' : '')
      return { text, tokens: [] }
    },
  })
  const prepared = await prepareChat(client, {
    messages: [{ role: 'user', content: 'a' }],
    tools,
    strict: ['add'],
    template: {},
  })
  t.ok(prepared.form.thinkingIsOpen)
  const { constraint } = await planAnswer(client, prepared)
  const begins = (held: unknown, text: string) =>
    new RegExp((held as { trigger: string }).trigger).test(text)
  t.notOk(begins(constraint, json))
  t.ok(begins(constraint, `So.</think>${json}`))
  t.ok(begins(constraint, `So.\n</think>${json}`), 'thoughts that were ended')
})

t.test('JSON comes behind thoughts that the prompt has opened', async (t) => {
  const thinking = { open: '<think>', close: '</think>' }
  const format = { thinking, calls: bareCalls, frame: { open: '', closings: [] } }
  const form = { tools: [], format, thinks: true, thinkingIsOpen: true }
  const prompt = { messages: [{ role: 'user', content: 'a' }] }
  const asked = [{ field: 'format', constraint: { type: 'json' } as const }]
  const held = await planAnswer(clientWith(), { prompt, form }, { asked })
  const schema = { type: 'object' }
  t.match(held, {
    constraint: { type: 'triggered-json', schema, or: undefined },
  })
  const { trigger } = held.constraint as { trigger: string }
  t.equal(new RegExp(trigger).exec('So {.</think>{}')?.[0], 'So {.</think>')
  t.match(readAll(held.form, 'So {.</think>{}'), [
    { type: 'reasoning', text: 'So {.' },
    { type: 'text', text: '{}' },
  ])
  const regex = [{ field: 'guided_regex', constraint: { type: 'regex', pattern: 'a' } as const }]
  const other = await planAnswer(clientWith(), { prompt, form }, { asked: regex })
  t.match(other, {
    prompt: { template: { suffix: '</think>' } },
    form: { thinks: false, thinkingIsOpen: false },
    constraint: { type: 'regex' },
  })
  const closed = { ...form, thinkingIsOpen: false }
  const without = await planAnswer(clientWith(), { prompt, form: closed }, { asked })
  t.match(without, { form: { thinks: false }, constraint: { type: 'json' } })
})
