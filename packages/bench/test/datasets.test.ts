import { join } from 'node:path'
import * as fc from 'fast-check'
import t from 'tap'
import {
  fitDataset,
  lengthDrawer,
  openDataset,
  parseLengths,
  promptText,
  randomSource,
  simulatedLoad,
  syntheticDataset,
  type Dataset,
  type WorkItem,
} from '@cllm/bench'

const options = {
  inputLengths: parseLengths('32'),
  outputLengths: parseLengths('8'),
  seed: 1,
}
const first = (dataset: Dataset, count = dataset.size ?? 10) =>
  Array.from({ length: count }, (_, index) => dataset.item(index))

t.test('lengths', async (t) => {
  t.same(parseLengths('128'), parseLengths('fixed:128'))
  const draws = (text: string) => {
    const draw = lengthDrawer(parseLengths(text), randomSource(7, text))
    return Array.from({ length: 4000 }, draw)
  }
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length / 2] as number
  t.same(new Set(draws('5')), new Set([5]))
  t.same(new Set(draws('uniform:2-4')), new Set([2, 3, 4]))
  t.ok(Math.abs(mean(draws('normal:100,20')) - 100) < 2)
  t.ok(Math.abs(middle(draws('lognormal:100,0.5')) - 100) < 5)
  t.ok(Math.min(...draws('normal:2,20')) === 1, 'never below a token')
  for (const wrong of ['', '0', '-3', 'uniform:9-3', 'normal:5', 'gauss:1,2', '1e3']) {
    t.throws(() => parseLengths(wrong), /expected 128, uniform/, wrong)
  }
})

t.test('synthetic requests are a function of seed and index', async (t) => {
  const make = (seed: number) =>
    syntheticDataset({ ...options, inputLengths: parseLengths('uniform:8-64'), seed })
  fc.assert(
    fc.property(fc.nat(), fc.nat(1000), (seed, index) => {
      const [a, b] = [make(seed).item(index), make(seed).item(index)]
      return (
        promptText(a, seed) === promptText(b, seed) &&
        promptText(a, seed).split(' ').length === a.inputTokens &&
        promptText(a, seed) !== promptText(a, seed + 1)
      )
    }),
    { numRuns: 50 },
  )
  const [one, two] = first(make(1), 2)
  t.not(promptText(one!, 1).slice(0, 20), promptText(two!, 1).slice(0, 20))
  t.not(promptText(one!, 1), promptText(one!, 1, 'round 2'), 'fresh in another round')
})

t.test('shared prefixes are shared by a group', async (t) => {
  const dataset = syntheticDataset({ ...options, sharedPrefix: 0.5, prefixGroups: 2 })
  const prefixes = first(dataset, 40).map((item) => promptText(item, 1).split(' ').slice(0, 16))
  t.equal(new Set(prefixes.map((words) => words.join(' '))).size, 2)
  const rests = first(dataset, 40).map((item) => promptText(item, 1).split(' ').slice(16).join(' '))
  t.equal(new Set(rests).size, 40)
})

t.test('files of every format', async (t) => {
  const folder = t.testdir({
    'lines.txt': 'From fairest creatures\n\nThat thereby beauty\n',
    'sharegpt.json': JSON.stringify([
      {
        conversations: [
          { from: 'human', value: 'Hi' },
          { from: 'gpt', value: 'Hello you there.' },
        ],
      },
      { conversations: [{ from: 'human', value: 'nobody answers' }] },
    ]),
    'mt.jsonl': '{"question_id":1,"turns":["Write a poem","Again"]}\n',
    'azure.csv':
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n' +
      '2023-11-16 18:15:50.9951690,396,109\n',
    'mooncake.jsonl':
      '{"timestamp":27,"input_length":1200,"output_length":5,"hash_ids":[0,1,2]}\n' +
      '{"timestamp":3027,"input_length":700,"output_length":6,"hash_ids":[0,9]}\n',
  })
  const open = (format: string, file: string) =>
    openDataset(`${format}:${join(folder, file)}`, options)

  const lines = open('text', 'lines.txt')
  t.same(
    first(lines, 3).map(({ prompt }) => prompt),
    ['From fairest creatures', 'That thereby beauty', 'From fairest creatures'],
  )
  t.equal(lines.timed, false)
  const chats = open('sharegpt', 'sharegpt.json')
  t.match(first(chats), [{ prompt: 'Hi', outputTokens: 4 }])
  t.match(first(open('mt-bench', 'mt.jsonl')), [
    { prompt: 'Write a poem', outputTokens: 8, next: { prompt: 'Again', outputTokens: 8 } },
  ])

  const azure = open('azure', 'azure.csv')
  t.equal(azure.timed, true)
  t.match(first(azure), [
    { inputTokens: 374, outputTokens: 44, atMs: 0 },
    { inputTokens: 396, outputTokens: 109 },
  ])
  t.ok(Math.abs(azure.item(1).atMs! - 4314.579) < 0.001, 'fractions of the second are kept')

  const mooncake = open('mooncake', 'mooncake.jsonl')
  const [a, b] = first(mooncake).map((item) => promptText(item, 1).split(' '))
  t.same([a!.length, b!.length], [1200, 700])
  t.same(a!.slice(0, 512), b!.slice(0, 512), 'block 0 is the same text')
  t.notSame(a!.slice(512, 700), b!.slice(512, 700))
  t.equal(mooncake.item(1).atMs, 3000)

  const small = fitDataset(mooncake, {
    timeScale: 0.1,
    lengthScale: 0.5,
    maxInput: 300,
    maxOutput: 2,
  })
  t.match(first(small), [
    { inputTokens: 300, outputTokens: 2, atMs: 0 },
    { inputTokens: 300, outputTokens: 2, atMs: 300 },
  ])
  const [c, d] = first(small).map((item) => promptText(item, 1).split(' '))
  t.same(c!.slice(0, 256), d!.slice(0, 256), 'still shared')
  t.notSame(c!.slice(256), d!.slice(256))
  t.match(fitDataset(chats, { maxInput: 0.25 }).item(0), { prompt: 'H', inputTokens: 0.25 })
  const text = { prompt: 'word '.repeat(800), inputTokens: 1000, outputTokens: 8 }
  const texts = { name: 'texts', timed: false, item: () => text }
  const cut = fitDataset(texts, { maxInput: 10 }).item(0)
  t.same([cut.prompt.length, cut.inputTokens], [40, 10])
  t.match(fitDataset(texts, { lengthScale: 0.5 }).item(0), { inputTokens: 500, outputTokens: 4 })
  t.equal(fitDataset(texts, { lengthScale: 2 }).item(0).inputTokens, 1000, 'no text gets longer')
  t.throws(() => fitDataset(mooncake, { lengthScale: 1e6 }).item(1), {
    code: 'invalid_dataset',
    message: /^request 1 of mooncake: expected .* at most 10000000 tokens, got 700000000 and/,
  })
  const [x, y] = ['run 1', 'run 2'].map((salt) => promptText(text, 1, salt))
  t.not(x!.slice(0, 30), y!.slice(0, 30), 'fresh in every run')
  t.ok(x!.endsWith(text.prompt))
  const leaves = { ...text, atMs: 10, request: { priority: 1, cancelAfterMs: 30 } }
  const left = fitDataset({ ...texts, item: () => leaves }, { timeScale: 0.5 }).item(0)
  t.match(left, { atMs: 5, request: { priority: 1, cancelAfterMs: 15 } })
})

t.test('what is wrong in a file is named with its line', async (t) => {
  const good = '{"timestamp":0,"input_length":3,"output_length":5}\n'
  const cases: readonly (readonly [string, string, string])[] = [
    ['mooncake', `${good}\n{"timestamp":1,"input_length":3}\n`, ':3: output_length: '],
    ['mooncake', `${good}{"timestamp":`, ':2: not JSON: '],
    [
      'mooncake',
      `${good.replace('0', '9')}${good}`,
      ':2: timestamp: earlier .*, by 9 ms: expected',
    ],
    ['azure', 'TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,3\n', ':1: expected the columns'],
    ['azure', 'TIMESTAMP,ContextTokens,GeneratedTokens\nnow,3,4\n', ':2: TIMESTAMP: expected a'],
    [
      'azure',
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,3,4\n2023-11-16 18:15:47,x,4\n',
      ':3: ContextTokens: expected a whole number, got "x"',
    ],
    ['azure', 'TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\n', ':2: '],
    ['azure', 'TIMESTAMP,ContextTokens,GeneratedTokens\n', ': has no requests'],
    ['mt-bench', '{"turns":[]}', ':1: turns: '],
    ['sharegpt', '{"conversations":1}', ': Invalid input'],
    ['sharegpt', '[]', ': has no conversation'],
    ['text', '\n', ': is empty'],
  ]
  for (const [format, content, message] of cases) {
    const file = join(t.testdir({ file: content }), 'file')
    t.throws(
      () => openDataset(`${format}:${file}`, options),
      { code: 'invalid_dataset', message: new RegExp(`^${file}${message}`) },
      `${format} ${message}`,
    )
  }
  t.throws(
    () => openDataset('azure:/no/such/file', options),
    /\/no\/such\/file: there is no such file/,
  )
  for (const spec of ['burst:x', 'constructor:x']) {
    t.throws(() => openDataset(spec, options), {
      code: 'invalid_configuration',
      message: /expected synthetic, agents\[:SHARE\], text:FILE/,
    })
  }
})

t.test('agents: programs of turns with pauses, and chats beside them, as published', (t) => {
  const items = first(openDataset('agents', options), 3000)
  t.same(items[7], openDataset('agents', options).item(7), 'a function of the seed')
  const turnsOf = (item: WorkItem): WorkItem[] => [item, ...(item.next ? turnsOf(item.next) : [])]
  const programs = items.map(turnsOf).filter(({ length }) => length > 1)
  t.equal(programs.length, 2000)
  const turns = programs.reduce((sum, { length }) => sum + length, 0) / programs.length
  t.ok(Math.abs(turns - 10.9) < 1, `${turns} turns`)
  const pauses = programs.flat().flatMap(({ pauseMs = [] }) => pauseMs)
  const within = (ms: number) => pauses.filter((pause) => pause <= ms).length / pauses.length
  t.ok(Math.abs(within(1000) - 0.8646) < 0.01 && Math.abs(within(10_000) - 0.9512) < 0.01)
  const afterTool = (name: string) =>
    programs.flat().flatMap(({ calls, next }) => (calls === name ? [next!.pauseMs!] : []))
  const soon = (name: string) => {
    const own = afterTool(name)
    return own.filter((pause) => pause <= 1000).length / own.length
  }
  t.ok(soon('Read') > 0.95 && soon('Bash') < 0.82 && soon('Task') < 0.4, 'tools differ')
  t.ok(
    programs.every((turns) => turns.at(-1)!.calls === undefined),
    'the last turn calls none',
  )
  const prompts = new Set(programs.map(([item]) => JSON.stringify((item!.prompt as object[])[0])))
  t.equal(prompts.size, 4, 'of few agents, each with a system prompt')

  const hinted = first(openDataset('agents:0.5', options), 3000).map(turnsOf)
  const told = hinted.filter(([{ retainMs } = items[0]!]) => retainMs !== undefined)
  t.ok(Math.abs(told.length / 2000 - 0.5) < 0.05, `${told.length} programs tell of their return`)
  const says = (turns: readonly WorkItem[]) =>
    turns.every(({ retainMs, next }) => retainMs === (next === undefined ? 0 : 10_000))
  t.ok(told.every(says), 'each call but the last one says that another comes')
  const untold = (all: unknown): unknown =>
    JSON.parse(
      JSON.stringify(all, (key, value: unknown) => (key === 'retainMs' ? undefined : value)),
    )
  t.same(
    untold(hinted.slice(0, 30).map(([item]) => item)),
    untold(items.slice(0, 30)),
    'all else is the same',
  )
  t.end()
})

t.test('a simulated program says all again, and goes on after its pause', async (t) => {
  const shape = { kind: 'open', rate: 10, burstiness: 1, rampMs: 0 } as const
  const dataset = openDataset('agents:1', options)
  const load = simulatedLoad({ shape, dataset, seed: 1, requests: 1 })
  const [request] = load.requests
  const next = load.after({ request: request!, tokenTimes: [], endedAt: 0 }, 500)!
  const { next: turn, outputTokens, calls } = dataset.item(0)
  t.match([request!.retainMs, next.retainMs], [10_000, turn!.next ? 10_000 : 0])
  t.match(next.messages, [{ role: 'assistant', tool_calls: [{ function: { name: calls } }] }])
  const failed = { request: request!, tokenTimes: [], endedAt: 0, error: 'prompt_too_long' }
  t.equal(load.after(failed, 500), undefined, 'nothing follows what has no answer')
  t.equal(next.arrival, 500 + turn!.pauseMs!)
  t.equal(next.maxTokens, turn!.outputTokens)
  const [said, before] = [next.prompt, request!.prompt].map((of) => (of as () => number[])())
  t.same(said!.slice(0, before!.length + outputTokens), [
    ...before!,
    // What the prompt ends with is what is said first.
    before!.at(-1),
    ...Array.from({ length: outputTokens - 1 }, () => 0),
  ])
  t.equal(said!.length, before!.length + outputTokens + turn!.inputTokens)
  t.same(load.programs, [0, 0])
  t.same([request!.session, next.session], ['0', '0'], 'and names its session')
})
