import t from 'tap'
import { keyRing } from '@cllm/http-koa'
import { z } from 'zod'
import { jsonErrorPosition } from '../src/body/json-error-position.js'
import { exceededBy } from '../src/body/read-body.js'
import type { AnswerParser } from '../src/chat/answer/answer-part.js'
import { createAnswerParser } from '../src/chat/answer/create-answer-parser.js'
import { bareCalls, commonCalls } from '../src/chat/format/known-formats.js'
import { list, parseKeepAlive } from '../src/fields/fields.js'
import {
  checkUnharmed,
  isRepeated,
  send,
  serveEverything,
  takeBodies,
  validBodies,
} from './every-route.js'
import { rawRequest, until } from './serve.js'

/** What parsers may go back over, each repeated to a length. */
const runs = [
  ['{'], ['}'], ['{{'], ['{{', ' '], ['{{-', ' ', '-'], ['{{.Prompt}}'], ['{{if .System}}'], ['{{/*', '*'],
  ['['], ['"'], ['\\'], ['1'], ['1.'], ['1ns', '1'], ['.'], ['-'], [' '], ['\n'], [' ', ' x'],
  ['<think>'], ['</think>'], ['<tool_call>'], ['[TOOL_CALLS]'], ['```'], ['$&'], ['$`'], ['A'], ['/'], [':'],
  ['%7B'], ['data:'], [';', ' '], ['\u0000'], ['😀'],
] // prettier-ignore

function textOf(run: readonly string[], length: number): string {
  const [begin = '', middle = begin, end = ''] = run
  const count = Math.ceil(length / middle.length)
  return `${begin}${middle.repeat(count)}${end}`
}

/** One in so many of what is asked: all takes three times as long. */
const share = process.argv.includes('--all') ? 1 : 3

const hostile = (length: number): string[] => runs.map((run) => textOf(run, length))

/** Milliseconds that this process computed since it began: the machine's other work does not count. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** The least of some times, since the garbage of what was before may count. */
async function leastCpuMs(work: () => unknown, times = 3): Promise<number> {
  let least = Infinity
  for (let tries = 0; tries < times; tries++) {
    const begin = cpuMs()
    await work()
    least = Math.min(least, cpuMs() - begin)
  }
  return least
}

/** Four times as much takes about four times as long; what is quadratic takes sixteen times. */
async function isLinear(work: (length: number) => unknown): Promise<boolean> {
  for (const times of [1, 3, 3]) {
    const short = await leastCpuMs(() => work(25_000), times)
    const long = await leastCpuMs(() => work(100_000), times)
    if (long <= 10 * short + 10) return true
  }
  return false
}

t.test('parsers of fields take linear time', async (t) => {
  const parsers: Readonly<Record<string, (text: string) => unknown>> = {
    keepAlive: parseKeepAlive,
    jsonErrorPosition: (text) => jsonErrorPosition(text.slice(0, 100_000)),
    jsonDepth: (text) => exceededBy(text, 100),
  }
  for (const [name, parse] of Object.entries(parsers)) {
    for (const run of runs) {
      const isFine = await isLinear((length) => {
        try {
          return parse(textOf(run, length))
        } catch {
          return undefined
        }
      })
      t.ok(isFine, `${name}: ${JSON.stringify(run)}`)
    }
  }
})

t.test('parsers of answers take linear time', async (t) => {
  const tools = [{ type: 'function' as const, function: { name: 'f' } }]
  const thinking = { open: '<think>', close: '</think>' }
  const calls = [...commonCalls, ...bareCalls]
  const format = { calls, thinking, frame: { open: '', closings: [] } }
  const answers: Readonly<Record<string, (length: number) => string>> = {
    'white space': (length) => '\n'.repeat(length),
    'a long call': (length) => `<tool_call>{"name":"f","arguments":{"a":"${'x'.repeat(length)}`,
    'a long fence': (length) => `\`\`\`${'x'.repeat(length)}`,
    'a long object': (length) => `{"a":"${'x'.repeat(length)}`,
    'a space in an object': (length) => `{${' '.repeat(length)}`,
    marks: (length) => `[TOOL_CALLS]${';'.repeat(length)}`,
    'space behind a call': (length) =>
      `<tool_call>{"name":"f","arguments":{}}${'\n'.repeat(length)}`,
    'calls of nothing': (length) => '<tool_call>x</tool_call>'.repeat(length / 24),
    thinking: (length) => `<think>${'<'.repeat(length)}`,
    'space before thinking': (length) => `${' '.repeat(length)}<think>`,
    brackets: (length) => '['.repeat(length),
  }
  const read = (parser: AnswerParser, pieces: readonly string[]) => {
    for (const piece of pieces) parser.push(piece)
    parser.end()
  }
  for (const [name, make] of Object.entries(answers)) {
    const form = { tools, format, thinks: name.includes('think'), thinkingIsOpen: false }
    for (const streams of [false, true]) {
      const inPieces = (length: number) =>
        read(createAnswerParser(form, streams), make(length).match(/[^]{1,3}/g) ?? [])
      t.ok(await isLinear(inPieces), `${name}, streams: ${streams}`)
    }
    const atOnce = (length: number) => read(createAnswerParser(form), [make(length)])
    t.ok(await isLinear(atOnce), `${name}, at once`)
  }
})

t.test('no field of any route holds the process', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  const length = 50_000
  const few = new Set([
    '{',
    '{{',
    '{{.Prompt}}',
    '[',
    '"',
    '\\',
    '1',
    ' ',
    '\n',
    '<think>',
    '$&',
    ';',
  ])
  // All take some milliseconds; quadratic time would be many seconds.
  const mostMs = 1500
  const held: string[] = []
  const check = async (what: string, ask: () => Promise<unknown>) => {
    const begin = cpuMs()
    await ask()
    if (cpuMs() - begin > mostMs && (await leastCpuMs(ask)) > mostMs) held.push(what)
  }
  const texts = hostile(length).filter((_, index) => few.has(runs[index]![0]!))
  for (const [nth, route] of takeBodies.entries()) {
    const { path, body } = route
    const valid = validBodies[path]!
    const all = Object.keys(body!.shape)
    const fields = isRepeated(route) ? all.slice(0, 2) : all
    for (const [index, text] of texts.entries()) {
      if ((nth + index) % share > 0) continue
      const name = JSON.stringify(text.slice(0, 10))
      // Half of the texts for each route: its neighbours have most of its fields.
      if (nth % 2 === index % 2) {
        const inAll = JSON.stringify(Object.fromEntries(all.map((field) => [field, text])))
        await check(`${path}: ${name} in all`, () => send(server, route, inAll))
      }
      const taken = fields.filter((each) => body!.shape[each]!.safeParse(text).success)
      // Each field with a fifth of them, and each of them with a third of the fields.
      for (const field of taken.filter((_, place) => place % 5 === index % 5)) {
        const json = JSON.stringify({ ...valid, [field]: text })
        await check(`${path}: ${field}: ${name}`, () => send(server, route, json))
      }
      // What reads names and bodies is the same for all routes: a quarter of the texts for each.
      if (nth % 4 !== index % 4) continue
      const unknown = JSON.stringify({ ...valid, [text]: 1 })
      await check(`${path}: ${name} as a name`, () => send(server, route, unknown))
      await check(`${path}: ${name} as a body`, () => send(server, route, text))
    }
    for (const field of fields.filter((_, place) => (nth + place) % share === 0)) {
      const many = `[${'0,'.repeat(length)}0]`
      const json = JSON.stringify({ ...valid, [field]: 0 }).replace(
        `"${field}":0`,
        `"${field}":${many}`,
      )
      await check(`${path}: ${field}: a long list`, () => send(server, route, json))
    }
  }
  t.same(held, [])
  await checkUnharmed(t, server)
})

t.test('of a list of a million wrong elements one is looked at', (t) => {
  let checked = 0
  const element = z.custom((value) => {
    checked++
    return value === 1
  }, 'a one')
  const schema = z.object({
    all: list(element, 'a list', { most: [2_000_000, 'fewer'] }).optional(),
  })
  const result = schema.safeParse({ all: [1, ...Array<number>(1_000_000).fill(0)] })
  t.match(result.error?.issues, [{ path: ['all', 1], message: 'a one' }])
  t.same([result.error?.issues.length, checked], [1, 2])
  for (const { path, body } of takeBodies) {
    for (const [field, type] of Object.entries(body!.shape)) {
      const wrong = (type as z.ZodType).safeParse(Array<number>(3000).fill(0.5))
      t.ok((wrong.error?.issues.length ?? 0) <= 3, `${path}: ${field}: not one for each`)
    }
  }
  t.end()
})

t.test('no path or header holds the process', async (t) => {
  const keys = keyRing(() => [])
  const server = await serveEverything({ security: { keys, corsOrigins: ['https://a.example'] } })
  t.teardown(server.close)
  const names = [
    'Authorization',
    'Host',
    'Origin',
    'X-Request-Id',
    'Content-Type',
    'Accept',
    'Cookie',
  ]
  const ask = async (head: string) => {
    const client = await rawRequest(server.port, `${head}\r\nConnection: close\r\n\r\n`)
    await until(() => client.closed)
  }
  for (const [index, text] of hostile(15_000).entries()) {
    const line = text.replace(/[^ -~]| /g, '+').slice(0, 15_000)
    const header = text.replace(/[^ -~]/g, ' ').slice(0, 15_000)
    const heads = [
      ...['', '/v1/models', '/requests', '/admin'].map(
        (path) => `GET ${path}/${line}x HTTP/1.1\r\nHost: a`,
      ),
      `GET /health?${line} HTTP/1.1\r\nHost: a`,
      ...names.map((name) => `POST /generate HTTP/1.1\r\n${name}: Bearer ${header} x`),
    ]
    const askAll = async () => await Promise.all(heads.map(ask))
    const limit = 50 * heads.length
    const begin = cpuMs()
    await askAll()
    const isFine = cpuMs() - begin < limit || (await leastCpuMs(askAll)) < limit
    t.ok(isFine, JSON.stringify(runs[index]))
  }
})
