import type { ChatMessage, ChatToolCall } from '@cllm/core'
import t from 'tap'
import { AnswerReader } from '../../../src/chat/answer/answer-reader.js'
import type { ReadPart } from '../../../src/chat/answer/answer-part.js'
import { readLiteral } from '../../../src/chat/answer/call/read-literal.js'
import { createAnswerParser } from '../../../src/chat/answer/create-answer-parser.js'
import { learnChatFormat } from '../../../src/chat/format/learn-chat-format.js'
import type { RenderProbe } from '../../../src/chat/format/probe.js'
import type { ToolDefinition } from '../../../src/chat/format/chat-format.js'

type Call = ChatToolCall['function']

/** How a model that nobody has seen writes calls. */
interface Dialect {
  readonly calls: (calls: readonly Call[]) => string
  readonly thoughts?: readonly [open: string, close: string]
  readonly frame?: readonly [open: string, close: string]
}

const each = (write: (call: Call, index: number) => string, between = '') => ({
  calls: (calls: readonly Call[]) => calls.map(write).join(between),
})
const members = (given: Call['arguments'], write: (key: string, value: unknown) => string) =>
  Object.entries(given)
    .map(([key, value]) => write(key, value))
    .join('')
const shown = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
const python = (value: unknown) =>
  typeof value === 'string'
    ? `'${value
        .replaceAll('\\', '\\\\')
        .replaceAll("'", String.raw`\'`)
        .replaceAll('\n', String.raw`\n`)}'`
    : value === true
      ? 'True'
      : JSON.stringify(value)

const dialects: Readonly<Record<string, Dialect>> = {
  'JSON between tags': each((call) => `<call>${JSON.stringify(call)}</call>\n`),
  'other keys': each(
    ({ name, arguments: input }) => `<|act|>${JSON.stringify({ tool: name, input })}<|/act|>`,
  ),
  'a list': { calls: (calls) => `<tools>\n${JSON.stringify(calls, undefined, 2)}\n</tools>` },
  'OpenAI objects': {
    calls: (calls) =>
      `[CALLS]${JSON.stringify(calls.map((call, id) => ({ id: `c${id}`, type: 'function', function: call })))}`,
  },
  'the name in a tag': each(
    ({ name, arguments: given }) => `<tool name="${name}">\n${JSON.stringify(given)}\n</tool>\n`,
  ),
  'name and arguments in tags': each(
    ({ name, arguments: given }) =>
      `<tool><name>${name}</name><args>${JSON.stringify(given)}</args></tool>`,
  ),
  'a fence': each(
    ({ name, arguments: given }) => `Tool: ${name}\n\`\`\`json\n${JSON.stringify(given)}\n\`\`\`\n`,
  ),
  'an id before the name': each(
    ({ name, arguments: given }, index) =>
      `<|call|>${index}<|name|>${name}<|args|>${JSON.stringify(given)}<|done|>`,
  ),
  'elements with the names of the arguments': each(
    ({ name, arguments: given }) =>
      `<do tool="${name}">${members(given, (key, value) => `<${key}>${shown(value)}</${key}>`)}</do>`,
  ),
  'parameters with types': each(
    ({ name, arguments: given }) =>
      `<x:invoke name="${name}">\n${members(
        given,
        (key, value) => `<x:p name="${key}" type="${typeof value}">${shown(value)}</x:p>\n`,
      )}</x:invoke>\n`,
  ),
  'parameters on lines of their own': each(
    ({ name, arguments: given }) =>
      `<fn=${name}>\n${members(given, (key, value) => `<arg=${key}>\n${shown(value)}\n</arg>\n`)}</fn>\n`,
  ),
  "Python's calls": {
    calls: (calls) =>
      `<|py|>[${calls
        .map(
          ({ name, arguments: given }) =>
            `${name}(${Object.entries(given)
              .map(([key, value]) => `${key}=${python(value)}`)
              .join(', ')})`,
        )
        .join(', ')}]<|/py|>`,
  },
  'calls on lines of their own': each((call) => `\n<call>${JSON.stringify(call)}</call>`),
  'bare JSON': each((call) => JSON.stringify(call), '\n'),
  'another way to think': {
    ...each((call) => `<call>${JSON.stringify(call)}</call>`),
    thoughts: ['<|ponder|>', '<|/ponder|>'],
    frame: ['<|say|>', '<|/say|>'],
  },
}

const tools: readonly ToolDefinition[] = ['look_up', 'save-it'].map((name) => ({
  type: 'function',
  function: { name, parameters: { properties: { text: { type: 'string' } } } },
}))
const calls = [
  { name: 'look_up', arguments: { text: 'a "b" <c> {d}\n it\'s', count: 12, deep: true } },
  { name: 'save-it', arguments: { text: '€', list: [1, 'x'], word: 'constructor' } },
]

function answer(dialect: Dialect, message: ChatMessage): string {
  const [think, thought] = dialect.thoughts ?? ['', '']
  const [open, close] = dialect.frame ?? ['', '']
  const { content, reasoning_content: reasoning = '', tool_calls: made = [] } = message
  return (
    (reasoning === '' || think === '' ? '' : think + reasoning + thought) +
    (content === '' ? '' : open + content + close) +
    (made.length === 0 ? '' : dialect.calls(made.map((call) => call.function)))
  )
}

const renderAs =
  (dialect: Dialect): RenderProbe =>
  async (messages, { addGenerationPrompt = true } = {}) =>
    messages
      .map((message) =>
        message.role === 'assistant'
          ? `<|bot|>${answer(dialect, message)}<|end|>\n`
          : `<|${message.role}|>${message.content}<|end|>\n`,
      )
      .join('') + (addGenerationPrompt ? '<|bot|>' : '')

const message = (content: string, count: number, reasoning = ''): ChatMessage => ({
  role: 'assistant',
  content,
  ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
  tool_calls: calls.slice(0, count).map((call) => ({ type: 'function', function: call })),
})

t.test('formats that nobody has seen are learnt', async (t) => {
  for (const [name, dialect] of Object.entries(dialects)) {
    const format = await learnChatFormat('tools', renderAs(dialect))
    const form = { tools, format, thinks: format.thinking !== undefined, thinkingIsOpen: false }
    const thinks = dialect.thoughts !== undefined
    for (const count of [1, 2]) {
      // bare JSON is a call only where the answer begins
      const content = name === 'bare JSON' ? '' : 'Let me see. '
      const text = answer(dialect, message(content, count, thinks ? 'Hm.' : ''))
      for (const [size, streams] of [
        [1e9, false],
        [1, false],
        [1, true],
        [4, true],
      ] as const) {
        const parser = createAnswerParser(form, streams)
        const pieces = text.match(new RegExp(`[^]{1,${Math.min(size, text.length)}}`, 'g')) ?? []
        const parts = [...pieces.flatMap((piece) => [...parser.push(piece)]), ...parser.end()]
        const found: { name: string; json: string }[] = []
        let [said, thought] = ['', '']
        for (const part of parts) {
          if (part.type === 'call') found.push({ name: part.call.name, json: part.call.arguments })
          else if (part.type === 'arguments') found.at(-1)!.json += part.text
          else if (part.type === 'text') said += part.text
          else thought += part.text
        }
        const read = found.map(({ name, json }) => ({
          name,
          arguments: JSON.parse(json) as unknown,
        }))
        const label = `${name}, ${count}, in pieces of ${size}, streams: ${streams}`
        t.same(
          [read, said.trim(), thought],
          [calls.slice(0, count), content.trim(), thinks ? 'Hm.' : ''],
          label,
        )
      }
    }
  }
})

t.test('escapes in texts of Python are read', async (t) => {
  const text = String.raw`{'a': 'caf\u00e9 \xe9\n', 'b': "\U0001F600\ud83d\ude00\'\\"}`
  const read = readLiteral(text, '}', ['"', "'"])
  t.same(JSON.parse(read!.json), { a: 'café é\n', b: `😀😀'\\` })
  t.equal(readLiteral(text.slice(0, 12), '}', ["'"]), undefined, 'half an escape')
})

t.test('white space that the template puts before calls is no part of the text', async (t) => {
  const dialect = dialects['calls on lines of their own']!
  const format = await learnChatFormat('tools', renderAs(dialect))
  const form = { tools, format, thinks: false, thinkingIsOpen: false }
  const textOf = (written: string, streams: boolean) => {
    const parser = createAnswerParser(form, streams)
    const parts = [
      ...written.split('').flatMap((letter) => [...parser.push(letter)]),
      ...parser.end(),
    ]
    return parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
  }
  for (const content of ['Let me see.', 'Let me see.\n', 'Is\n\n1 <call>\n2? ']) {
    for (const streams of [false, true]) {
      // so that the next prompt begins with this answer
      t.equal(textOf(answer(dialect, message(content, 2)), streams), content)
      const none = `${content}\n<call>1 Mr. \n`
      t.equal(textOf(none, streams), none, 'no call')
    }
  }
})

/** Of the places where an answer may break off one in so many: all take three times as long. */
const share = process.argv.includes('--all') ? 1 : 3

t.test('an answer that breaks off or goes wrong loses nothing', async (t) => {
  const written = (parts: readonly ReadPart[]) =>
    parts
      .map((part) => {
        if (part.type === 'call-end') return part.raw
        return part.type === 'call' || part.type === 'arguments' ? '' : part.text
      })
      .join('')
  for (const [nth, [name, dialect]] of Object.entries(dialects).entries()) {
    const format = await learnChatFormat('tools', renderAs(dialect))
    const whole = answer(dialect, message('Let me see. ', 2, 'Hm.'))
    const places = [...Array(whole.length).keys()].filter((at) => (at + nth) % share === 0)
    const texts = places.flatMap((at) => [
      whole.slice(0, at),
      whole.slice(0, at) + whole.slice(at + 1),
    ])
    const lost = texts.filter((text) => {
      const reader = new AnswerReader({
        format,
        tools: new Map(tools.map((tool) => [tool.function.name, tool])),
        mostCalls: Infinity,
        thinkingIsOpen: false,
      })
      const parts = text.split('').flatMap((letter) => [...reader.push(letter)])
      return written([...parts, ...reader.end()]) !== text
    })
    t.same(lost, [], name)
  }
})
