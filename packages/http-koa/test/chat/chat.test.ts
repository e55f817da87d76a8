import * as fc from 'fast-check'
import t from 'tap'
import { type ChatMessage, CllmError, type EngineClient, type EngineInfo } from '@cllm/core'
import type { AnswerParser, AnswerPart, ReadPart } from '../../src/chat/answer/answer-part.js'
import { AnswerReader } from '../../src/chat/answer/answer-reader.js'
import { JsonScanner, TaggedArguments } from '../../src/chat/answer/call/call-arguments.js'
import { createAnswerParser } from '../../src/chat/answer/create-answer-parser.js'
import { bareCalls, commonCalls } from '../../src/chat/format/known-formats.js'
import { chatFormatOf, promptEnd } from '../../src/chat/format/known-templates.js'
import { prepareChat, promptWithTools } from '../../src/chat/prepare-chat.js'

t.test('ids of calls are such as the templates of Mistral take', async (t) => {
  const call = { type: 'function', function: { name: 'add', arguments: {} } } as const
  const messages = [
    {
      role: 'assistant',
      content: '',
      tool_calls: [
        { ...call, id: 'call_5' },
        { ...call, id: 'abc123def' },
      ],
    },
    { role: 'tool', content: '3', tool_call_id: 'call_5' },
    { role: 'tool', content: '4', tool_call_id: 'abc123def' },
  ]
  const shown = promptWithTools(messages, [], { showsTools: true, shortIds: true }).messages
  const [first, second] = shown[0]?.tool_calls ?? []
  t.match(first?.id, /^[a-z0-9]{9}$/)
  t.equal(second?.id, 'abc123def', 'one that fits is left alone')
  t.same(
    shown.map(({ tool_call_id: id }) => id),
    [undefined, first?.id, 'abc123def'],
  )
  t.same(promptWithTools(messages, [], { showsTools: true, shortIds: false }).messages, messages)
})

t.test('a client that leaves while its template is learnt takes no other one along', async (t) => {
  const clientOf = (applyTemplate: () => Promise<{ readonly text: string }>) => {
    const info = { model: { details: { chatTemplate: 'of two clients' } } } as unknown as EngineInfo
    return { info: async () => info, applyTemplate } as unknown as EngineClient
  }
  const leaving = clientOf(async () => {
    throw new CllmError('cancelled', 'The client left')
  })
  const staying = clientOf(async () => ({ text: 'any' }))
  const [left, stayed] = await Promise.allSettled([leaving, staying].map(chatFormatOf))
  t.match(left, { status: 'rejected', reason: { code: 'cancelled' } })
  t.match(stayed, { status: 'fulfilled' })
})

t.test(
  'tools that may not be called stay in the prompt, whose cached prefix is found so',
  async (t) => {
    const prepared = async (chatTemplate: string, mayCall?: boolean) => {
      const info = { model: { details: { chatTemplate } } } as unknown as EngineInfo
      const applyTemplate = async () => ({ text: '' })
      const client = { info: async () => info, applyTemplate } as unknown as EngineClient
      const tools = [{ type: 'function', function: { name: 'add' } }] as const
      const messages = [{ role: 'user', content: 'a' }]
      return await prepareChat(client, { messages, tools, mayCall, template: {} })
    }
    const [may, mayNot] = [await prepared('of tools'), await prepared('of tools', false)]
    t.same(may.form.tools.length, 1)
    t.same(mayNot.form.tools, [], 'what looks like a call is text')
    t.same(mayNot.prompt, may.prompt)
    const { messages } = (await prepared('of texts', false)).prompt
    t.equal(messages.length, 1, 'a template without tools would be told how to call them')
  },
)

t.test('a new list of tools costs no call to render its prompt', async (t) => {
  let rendered = 0
  const clientOf = (details: object, end = '') => {
    const info = { model: { details } } as unknown as EngineInfo
    const applyTemplate = async (messages: readonly ChatMessage[]) => {
      rendered++
      return { text: `${messages.map(({ content }) => content).join('')}${end}` }
    }
    return { info: async () => info, applyTemplate } as unknown as EngineClient
  }
  const messages = [{ role: 'user', content: 'a' }]
  const prepared = async (client: EngineClient, ...names: readonly string[]) => {
    const tools = names.map((name) => ({ type: 'function', function: { name } }) as const)
    const template = { variables: { enable_thinking: false } }
    return await prepareChat(client, { messages, tools, template })
  }
  const client = clientOf({ chatTemplate: 'tools in <think></think>' })
  const { prompt } = await prepared(client, 'add')
  t.match(prompt, { template: { suffix: '<think></think>', variables: { tools: [{}] } } })
  const learnt = rendered
  await prepared(client, 'add', 'subtract')
  await prepared(client, 'multiply')
  await prepared(clientOf({ chatTemplate: 'tools in <think></think>' }), 'restarted')
  t.equal(rendered, learnt)
  await prepared(client)
  t.ok(rendered > learnt, 'a prompt without tools may end in another way')
  const [one, other] = [clientOf({}, '<think>'), clientOf({}, '[THINK]')]
  const formats = await Promise.all([one, other, one].map(chatFormatOf))
  t.equal(formats[0], formats[2])
  t.not(formats[0], formats[1], 'two models whose templates nobody knows are not the same')
})

t.test('a prompt whose template cannot leave out the thoughts gets empty ones', async (t) => {
  const thinking = { open: '<think>', close: '</think>' }
  const ends = async (
    end: (variables: Record<string, unknown>) => string,
    wish?: boolean,
    given = thinking,
  ) => {
    const client = {
      applyTemplate: async (_: unknown, { variables }: { variables: Record<string, unknown> }) => ({
        text: `bot:${end(variables)}`,
      }),
    } as unknown as EngineClient
    const variables = wish === undefined ? {} : { enable_thinking: wish, thinking: wish }
    return await promptEnd(client, { thinking: given }, variables)
  }
  const always = () => '<think>\n'
  const never = () => ''
  const switched = (variables: Record<string, unknown>) =>
    variables['thinking'] === false ? '<think></think>' : ''
  const quiet = (variables: Record<string, unknown>) => (variables['thinking'] === true ? '+' : '')
  t.same(await ends(always), { thinkingIsOpen: true })
  t.same(await ends(always, true), { thinkingIsOpen: true })
  t.same(await ends(always, false), { thinkingIsOpen: false, suffix: '</think>' })
  t.same(await ends(never), { thinkingIsOpen: false })
  t.same(await ends(never, false), { thinkingIsOpen: false, suffix: '<think></think>' })
  t.same(await ends(switched, false), { thinkingIsOpen: false }, 'the template can')
  t.same(await ends(quiet, false), { thinkingIsOpen: false }, 'the template can')
  const channel = { open: '<|channel|>analysis', close: '<|end|>' }
  t.same(await ends(never, false, channel), { thinkingIsOpen: false })
})

const names = ['get_weather', 'add']

const tools = names.map((name) => ({ type: 'function' as const, function: { name } }))
/** What is read where a template tells nothing. */
const format = {
  calls: [...commonCalls, ...bareCalls],
  thinking: { open: '<think>', close: '</think>' },
  frame: { open: '', closings: [] },
}

const parser = (thinks = false, thinkingIsOpen = false): AnswerParser =>
  createAnswerParser({ tools, format, thinks, thinkingIsOpen })
const streamingParser = (mostCalls?: number): AnswerParser => {
  const form = { tools, format, thinks: false, thinkingIsOpen: false }
  return createAnswerParser(mostCalls === undefined ? form : { ...form, mostCalls }, true)
}

const letters = (text: string): string[] => text.split('')

/** The parts of an answer that comes in these pieces, texts of a kind joined. */
function parse(pieces: readonly string[], into: AnswerParser) {
  const parts = [...pieces.flatMap((piece) => [...into.push(piece)]), ...into.end()]
  const join = (type: AnswerPart['type']) =>
    parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join('')
  const calls: { name: string; json: string }[] = []
  for (const part of parts) {
    if (part.type === 'call') calls.push({ name: part.call.name, json: part.call.arguments })
    if (part.type === 'arguments') calls.at(-1)!.json += part.text
  }
  return {
    text: join('text'),
    reasoning: join('reasoning'),
    calls: calls.map(({ name, json }) => [name, JSON.parse(json) as unknown]),
  }
}

const paris = ['get_weather', { city: 'Pa}"ris' }]
const json = '{"name": "get_weather", "arguments": {"city": "Pa}\\"ris"}}'

t.test('tool calls of the common formats, cut anywhere', async (t) => {
  const cases: [answer: string, text: string, calls: unknown[]][] = [
    [`<tool_call>\n${json}\n</tool_call>`, '', [paris]],
    [`Let me see.\n<tool_call>${json}</tool_call>`, 'Let me see.\n', [paris]],
    [`<tool_call>${json}</tool_call>\n<tool_call>\n${json}\n</tool_call>`, '', [paris, paris]],
    [`[TOOL_CALLS][${json}, ${json}]`, '', [paris, paris]],
    ['[TOOL_CALLS]add[ARGS]{"a": [1, 2]}', '', [['add', { a: [1, 2] }]]],
    ['add[ARGS]{"a": 1}', '', [['add', { a: 1 }]]],
    [`[${json}]`, '', [paris]],
    [`<|python_tag|>{"name": "add", "parameters": {"a": 1}}`, '', [['add', { a: 1 }]]],
    [
      '{"name": "add", "parameters": {"a": 1}}; {"name": "add", "parameters": {}}',
      '',
      [
        ['add', { a: 1 }],
        ['add', {}],
      ],
    ],
    [
      '{"type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}',
      '',
      [['add', { a: 1 }]],
    ],
    ['```json\n{"name": "add", "arguments": {"a": 1}}\n```', '', [['add', { a: 1 }]]],
    // what is none
    ['{"name": "unknown", "arguments": {}}', '{"name": "unknown", "arguments": {}}', []],
    ['[TODO] buy {milk}', '[TODO] buy {milk}', []],
    ['address: a < b', 'address: a < b', []],
    [
      '<tool_call>{"name": "add", "arguments": [1]}</tool_call>',
      '<tool_call>{"name": "add", "arguments": [1]}</tool_call>',
      [],
    ],
    ['<tool_call>{"name": "add", ', '<tool_call>{"name": "add", ', []],
    ['```js\nlet a = 1\n```\nSo.', '```js\nlet a = 1\n```\nSo.', []],
    [
      'Plain text with [brackets] and {"name": "add"}',
      'Plain text with [brackets] and {"name": "add"}',
      [],
    ],
  ]
  for (const [answer, text, calls] of cases) {
    t.same(parse([answer], parser()), { text, reasoning: '', calls }, answer)
    t.same(
      parse(letters(answer), parser()),
      { text, reasoning: '', calls },
      `${answer}, letter by letter`,
    )
    const streamed = { text, reasoning: '', calls }
    t.same(parse([answer], streamingParser()), streamed, `${answer}, streamed`)
    t.same(parse(letters(answer), streamingParser()), streamed, `${answer}, streamed by letters`)
  }
  t.same(
    parse(
      [`[${json},${json}]`],
      createAnswerParser({ tools, format, mostCalls: 1, thinks: false, thinkingIsOpen: false }),
    ).calls,
    [paris],
  )
})

t.test('arguments come as they are written', async (t) => {
  const partsOf = (text: string) => letters(text).flatMap((letter) => [...streaming.push(letter)])
  let streaming = streamingParser()
  t.same(partsOf('<tool_call>\n{"name": "add", "arguments": '), [])
  t.same(partsOf('{'), [
    { type: 'call', call: { name: 'add', arguments: '' } },
    { type: 'arguments', text: '{' },
  ])
  t.same(partsOf('"a'), [
    { type: 'arguments', text: '"' },
    { type: 'arguments', text: 'a' },
  ])
  t.same(streaming.end(), [], 'what breaks off shows as such')
  const two = `[${json}, ${json}]`
  t.same(parse(letters(two), streamingParser(1)).calls, [paris])
  streaming = streamingParser()
  const text = partsOf(`${json}\nDone.`).flatMap((part) => (part.type === 'text' ? part.text : []))
  t.equal(text.join(''), 'Done.')
})

t.test('white space of an argument beside that of its marks stays, however it comes', async (t) => {
  const marks = { open: '<p=', value: '>', close: '</p>', before: '\n', after: '\n' }
  const written = '<p=a>\n\n\nfirst\n\n</p></call>'
  for (const pieces of [[written], letters(written)]) {
    const reader = new TaggedArguments(marks, { a: { type: 'string' } }, ['</call>'])
    const json = pieces.map((piece) => reader.push(piece).text).join('')
    t.same(JSON.parse(json), { a: '\n\nfirst\n' }, `in ${pieces.length} pieces`)
  }
})

t.test('a forced call that is cut off is a call with what there is of its arguments', async (t) => {
  const written =
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Pa}\\"ris"}}</tool_call>'
  const from = written.indexOf('{"city')
  const form = { tools, format, thinks: false, thinkingIsOpen: false }
  for (const streams of [false, true]) {
    for (let length = 1; length <= written.length; length++) {
      const cut = written.slice(0, length)
      const into = createAnswerParser({ ...form, forced: ['get_weather'] }, streams)
      const parts = [...letters(cut).flatMap((letter) => [...into.push(letter)]), ...into.end()]
      const [first, ...others] = parts
      t.match(first, { type: 'call', call: { name: 'get_weather' } }, cut)
      const given = [
        first?.type === 'call' ? first.call.arguments : '',
        ...others.map((part) => (part.type === 'arguments' ? part.text : part.type)),
      ].join('')
      t.ok(written.slice(from).startsWith(given) || JSON.parse(given), `${cut}: ${given}`)
    }
    const either = createAnswerParser({ ...form, forced: names }, streams)
    t.same([...either.push('<tool_call>{"name": "get'), ...either.end()], [], 'of which tool')
    t.same(createAnswerParser({ ...form, forced: ['add'] }, streams).end(), [], 'nothing came')
  }
})

t.test('tokens of reasoning are counted', async (t) => {
  for (const streams of [false, true]) {
    const into = createAnswerParser({ tools, format, thinks: true, thinkingIsOpen: false }, streams)
    for (const piece of ['<think>', 'so', ' it', ' is', '</think>', 'a', 'b']) into.push(piece)
    into.end()
    t.equal(into.reasoningTokens, 4)
    const plain = createAnswerParser(
      { tools, format, thinks: true, thinkingIsOpen: false },
      streams,
    )
    for (const piece of ['a', 'b']) plain.push(piece)
    t.equal(plain.reasoningTokens, 0)
  }
})

t.test('strict calls begin in one way only', async (t) => {
  const begins = { marked: commonCalls.slice(0, 1), bare: bareCalls.slice(0, 1) }
  const answers: [begin: 'marked' | 'bare', answer: string, isCall: boolean][] = [
    ['marked', `So.<tool_call>${json}</tool_call>`, true],
    ['marked', json, false],
    ['marked', '```json\n{"name": "add", "arguments": {}}\n```', false],
    ['marked', 'add{"a": 1}', false],
    ['bare', json, true],
    ['bare', `[${json}]`, true],
    ['bare', `<tool_call>${json}</tool_call>`, false],
    ['bare', `So. ${json}`, false],
  ]
  for (const [callsBegin, answer, isCall] of answers) {
    for (const streams of [false, true]) {
      const only = { ...format, calls: begins[callsBegin] }
      const form = { tools, format: only, thinks: false, thinkingIsOpen: false }
      const { text, calls } = parse(letters(answer), createAnswerParser(form, streams))
      t.same(calls, isCall ? [paris] : [], answer)
      t.equal(text, isCall ? answer.split('<tool_call>{')[0]!.replace(/^[{[].*/, '') : answer)
    }
  }
})

t.test('text without calls comes through whole, wherever it is cut', async () => {
  const piece = fc.constantFrom(
    '<',
    '<think>',
    '</think>',
    '<tool_call>',
    '{',
    '[',
    ']',
    '}',
    '"',
    ' a',
    '\n',
    'add',
    '€',
  )
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const { text, calls } = parse(pieces, parser())
      return calls.length > 0 || text === pieces.join('')
    }),
  )
})

t.test('no character is lost, and no cut changes what is read', async () => {
  const piece = fc.constantFrom(
    '<think>', '</think>', '<tool_call>', '</tool_call>', '{"name": "add", "arguments": ', '{"a": 1}',
    '}', '[TOOL_CALLS]', '[', ']', ', ', ';', 'add[ARGS]', 'add', '<|tool_call_start|>[add(', 'a=1',
    ')', ' x', '\n', '```json', '```', '€', '"',
  ) // prettier-ignore
  const read = (pieces: readonly string[]) => {
    const reader = new AnswerReader({
      format,
      tools: new Map(tools.map((tool) => [tool.function.name, tool])),
      mostCalls: 2,
      thinkingIsOpen: false,
    })
    return [...pieces.flatMap((text) => [...reader.push(text)]), ...reader.end()]
  }
  const written = (parts: readonly ReadPart[]) =>
    parts
      .map((part) => {
        if (part.type === 'call-end') return part.raw
        return part.type === 'call' || part.type === 'arguments' ? '' : part.text
      })
      .join('')
  const joined = (parts: readonly ReadPart[]) => {
    const events: { type: string; text: string }[] = []
    for (const part of parts) {
      if (part.type === 'dropped' || part.type === 'call-end') continue
      const text = part.type === 'call' ? part.call.name + part.call.arguments : part.text
      const last = events.at(-1)
      if (last?.type === part.type && part.type !== 'call') last.text += text
      else events.push({ type: part.type, text })
    }
    return JSON.stringify(events)
  }
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const whole = read([pieces.join('')])
      const cut = read(letters(pieces.join('')))
      return (
        written(cut) === pieces.join('') &&
        written(whole) === pieces.join('') &&
        joined(whole) === joined(cut)
      )
    }),
    { numRuns: 2000 },
  )
})

t.test('thinking', async (t) => {
  const cases: [answer: string, isOpen: boolean, reasoning: string, text: string][] = [
    ['<think>\nHm.\n</think>\n\nYes.', false, 'Hm.', 'Yes.'],
    ['Hm.</think>Yes.', true, 'Hm.', 'Yes.'],
    ['<think>\n\n</think>\n\nYes.', false, '', 'Yes.'],
    ['Yes <think>', false, '', 'Yes <think>'],
    ['<thing>', false, '', '<thing>'],
    ['Hm. It goes on', true, 'Hm. It goes on', ''],
  ]
  for (const [answer, isOpen, reasoning, text] of cases) {
    t.same(parse([answer], parser(true, isOpen)), { text, reasoning, calls: [] }, answer)
    const cut = parse(letters(answer), parser(true, isOpen))
    t.same(
      { ...cut, reasoning: cut.reasoning.trim() },
      { text, reasoning: reasoning.trim(), calls: [] },
    )
  }
  t.same(parse(letters(`<think>a</think>\n<tool_call>${json}</tool_call>`), parser(true)), {
    text: '',
    reasoning: 'a',
    calls: [paris],
  })
})

t.test('where JSON ends', async (t) => {
  t.equal(new JsonScanner().push('{"a": "}\\""} b'), 12)
  t.equal(new JsonScanner().push('[{}, [1]], '), 9)
  t.equal(new JsonScanner().push('{"a": ['), undefined)
})
