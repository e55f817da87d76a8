/* oxlint-disable unicorn/no-thenable -- it is a keyword of JSON schema's */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { CllmError, type JsonSchema, type OutputConstraint } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'
import { generate, openTiny, sampling, tinyModel } from '../open-tiny.js'
import type { ConstraintResult } from './constraint-child.js'
import { hostileSchema, hostileSchemas } from './hostile-schemas.js'

/** Far more than any of them takes on a loaded machine; without limits they take minutes. */
const patienceMs = 15_000
/**
 * 0.1 s is what the slowest takes, llama.cpp's part included, on an idle machine once its code has run, and some times as
 * long on a busy one; without limits they take minutes.
 */
const mostCpuMs = 3000
const meanCpuMs = 200

const gbnf = (grammar: string): OutputConstraint => ({ type: 'gbnf', grammar })
const jsonSchema = (schema: JsonSchema): OutputConstraint => ({ type: 'json-schema', schema })
const list = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

function nested(depth: number, wrap: (inner: JsonSchema) => JsonSchema): JsonSchema {
  let schema: JsonSchema = {}
  for (let level = 0; level < depth; level++) schema = wrap(schema)
  return schema
}

/** Rules that each refer to the next. */
function chain(length: number, body: (next: string) => string): OutputConstraint {
  const rules = list(length, (index) => `a${index} ::= ${body(`a${index + 1}`)}\n`)
  return gbnf(`root ::= a0\n${rules.join('')}a${length} ::= "z"\n`)
}

/** Definitions that each refer to the next twice. */
function twice(keyword: 'allOf' | 'anyOf' | 'oneOf' | 'not' | 'if'): OutputConstraint {
  const of = (next: JsonSchema): JsonSchema => {
    if (keyword === 'if') return { if: next, then: next, else: next }
    return keyword === 'not' ? { not: { allOf: [next, next] } } : { [keyword]: [next, next] }
  }
  const definitions = list(26, (index) => {
    const next = { $ref: `#/$defs/a${index + 1}` }
    return [`a${index}`, index === 25 ? { type: 'string' } : of(next)] as const
  })
  return jsonSchema({ $ref: '#/$defs/a0', $defs: Object.fromEntries(definitions) })
}

/** What is refused, and with which words. */
const refused: readonly (readonly [name: string, OutputConstraint, message: RegExp])[] = [
  ['a repetition that ends before it begins', gbnf('root ::= "a"{3,1}'), /column 13: .* 3 to 1/],
  ['a repetition of 10^9', gbnf('root ::= "a"{0,1000000000}'), /more than 2000 repetitions/],
  ['repeated repetitions', gbnf('root ::= ((.{0,40}){0,40}){0,40}'), /more than 2000 repetitions/],
  ['a long text, repeated', gbnf(`root ::= "${'x'.repeat(1e5)}"{2000}`), /120000 elements/],
  ['long texts, optional', gbnf(`root ::= "${'x'.repeat(1000)}"{0,2000}`), /120000 elements/],
  ['once, 30,000 times', gbnf(`root ::= "${'x'.repeat(1e5)}"${'{1}'.repeat(3e4)}`), /2000000/],
  ['a wide set, repeated', gbnf(`root ::= [${'ab'.repeat(5e4)}]{2}`), /120000 elements/],
  ['2^24 ways to begin', chain(25, (next) => `${next} "x" | ${next} "y"`), /1000 ways/],
  ['a rule that is itself', gbnf('root ::= root'), /root begins with itself/],
  [
    'mutual left recursion',
    gbnf('root ::= a | "y"\na ::= b\nb ::= root "z"'),
    /root → a → b → root/,
  ],
  [
    'left recursion behind what may be empty in two steps',
    gbnf('root ::= n root "x" | "y"\nn ::= m\nm ::= "" | "z"'),
    /root begins with itself/,
  ],
  ['2,000 optional parts', gbnf(`root ::= ${'"b"? '.repeat(2000)}`), /more than 1000 ways/],
  ['50,000 groups in groups', gbnf(`root ::= ${'('.repeat(5e4)}`), /nested deeper than 100/],
  ['10,000 alternatives', gbnf(`root ::= ${list(1e4, (n) => `"${n}"`).join('|')}`), /1000 ways/],
  ['allOf twice, 25 times', twice('allOf'), /takes more than \d+ steps/],
  ['anyOf twice, 25 times', twice('anyOf'), /takes more than \d+ steps/],
  ['oneOf twice, 25 times', twice('oneOf'), /oneOf: the alternatives 0 and 1 may both be valid/],
  [
    'alternatives that multiply',
    jsonSchema({ allOf: list(12, (n) => ({ anyOf: [{ minLength: n }, { maxLength: 100 + n }] })) }),
    /more than 512 alternatives/,
  ],
  ['10^9 elements', jsonSchema({ type: 'array', minItems: 1e9 }), /at most 100000/],
  ['10^9 characters', jsonSchema({ type: 'string', minLength: 1e9 }), /at most 100000/],
  ['10^5 values', jsonSchema({ enum: list(1e5, (n) => n) }), /takes more than \d+ steps/],
  [
    '20,000 properties',
    jsonSchema({ properties: Object.fromEntries(list(2e4, (n) => [`p${n}`, {}])) }),
    /steps|characters/,
  ],
  [
    'a name of 100,000 characters',
    jsonSchema({ properties: { ['k'.repeat(1e5)]: {} } }),
    /takes more than \d+ steps/,
  ],
  [
    '500 alternatives that exclude each other',
    jsonSchema({
      oneOf: list(500, (n) => ({ type: 'integer', minimum: 10 * n, maximum: 10 * n + 5 })),
    }),
    /takes more than \d+ steps|characters/,
  ],
  [
    'schemas 2,000 deep',
    jsonSchema(nested(2000, (inner) => ({ properties: { a: inner } }))),
    /nested too deeply|takes more than \d+ steps/,
  ],
  [
    'a constant that is tried in 2^40 ways',
    jsonSchema({
      $ref: '#/$defs/r',
      $defs: { r: { anyOf: list(2, () => ({ type: 'array', items: { $ref: '#/$defs/r' } })) } },
      const: JSON.parse(`${'['.repeat(40)}1${']'.repeat(40)}`) as unknown,
    }),
    /steps|alternatives/,
  ],
  [
    'a pattern that backtracks on a constant',
    jsonSchema({ const: `${'a'.repeat(60)}b`, pattern: '^(a|a|aa)+$' }),
    /nothing is valid/,
  ],
  [
    'a pattern of 10^9 states and a constant',
    jsonSchema({ const: 'a', pattern: '^((a{1000}){1000}){1000}$' }),
    /more than 20000 states/,
  ],
  [
    'a large pattern and a long constant',
    jsonSchema({ const: 'a'.repeat(1e5), pattern: '(a?){1000}a{1000}' }),
    /takes more than \d+ steps/,
  ],
  ['not twice, 25 times', twice('not'), /takes more than|512 alternatives|both be valid/],
  ['if, then and else of the next, 25 times', twice('if'), /steps|alternatives|both be valid/],
  [
    '60 conditions on each other',
    jsonSchema({
      type: 'object',
      allOf: list(60, (n) => ({ if: { required: [`p${n}`] }, then: { required: [`p${n + 1}`] } })),
    }),
    /steps|alternatives/,
  ],
  [
    'texts of texts without end',
    jsonSchema({
      $ref: '#/$defs/a',
      $defs: {
        a: {
          type: 'string',
          contentMediaType: 'application/json',
          contentSchema: { $ref: '#/$defs/a' },
        },
      },
    }),
    /nested too deeply|steps/,
  ],
  [
    '60 patterns of names',
    jsonSchema({
      type: 'object',
      patternProperties: Object.fromEntries(list(60, (n) => [`a{${n}}b`, {}])),
    }),
    /steps/,
  ],
  [
    'words and repetitions',
    jsonSchema({
      type: 'string',
      pattern: `${list(60, (n) => `(?:x{${n}}y*)?`).join('')}\\b`,
      maxLength: 90,
    }),
    /steps|states/,
  ],
  [
    'not 2,000 texts',
    jsonSchema({ type: 'string', not: { enum: list(2000, (n) => `v${n * 7919}`) } }),
    /2000 states/,
  ],
  [
    'as many states with fewer characters',
    jsonSchema({
      type: 'string',
      maxLength: 60,
      allOf: [
        { pattern: '^.*[a-j].{14}$' },
        {
          pattern: `^(?:${list(42, (n) => `${String.fromCharCode(0xc0 + n)}+`).join('|')}|[a-z])*$`,
        },
      ],
    }),
    /2000 states/,
  ],
  ['a deep pattern', jsonSchema({ type: 'string', pattern: '('.repeat(2e4) }), /nested too deeply/],
]

class Child {
  #child: ChildProcess | undefined

  constructor(readonly modelPath: string) {}

  /** Undefined when no answer came in time; the child is ended then. */
  async run(constraint: OutputConstraint): Promise<ConstraintResult | undefined> {
    const child = (this.#child ??= await this.#start())
    const over = new AbortController()
    const answer = once(child, 'message', over).then(([result]) => result as ConstraintResult)
    const ended = once(child, 'exit', over).then(() => (this.#child = undefined))
    const timer = setTimeout(() => this.end(), patienceMs)
    child.send(constraint)
    const result = await Promise.race([answer, ended])
    clearTimeout(timer)
    over.abort() // its listeners
    return result
  }

  end(): void {
    this.#child?.kill('SIGKILL')
  }

  async #start(): Promise<ChildProcess> {
    const path = fileURLToPath(new URL('constraint-child.ts', import.meta.url))
    const child = fork(path, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
    child.send(this.modelPath)
    await once(child, 'message')
    return child
  }
}

t.test('what would take too long or too much memory is refused at once', async (t) => {
  t.setTimeout(refused.length * patienceMs)
  const child = new Child(await tinyModel(t))
  t.teardown(() => child.end())
  for (const [name, constraint, message] of refused) {
    const result = await child.run(constraint)
    t.match(result, { code: 'invalid_constraint', message }, name)
    t.ok(result !== undefined && 'ms' in result && result.ms < patienceMs, `${name}: soon`)
  }
})

t.test('a schema is compiled or refused soon, whatever it asks for', async (t) => {
  const backend = await openTiny(t)
  const work = (schema: JsonSchema): { ms: number; problem?: CllmError } => {
    const before = process.cpuUsage()
    let problem: CllmError | undefined
    try {
      // in this thread, unlike with `checkConstraint`
      backend.createSampler(sampling({ constraint: jsonSchema(schema) }), [1]).dispose()
    } catch (error) {
      if (!CllmError.isInstance(error) || error.code !== 'invalid_constraint') throw error
      problem = error
    }
    const { user, system } = process.cpuUsage(before)
    return { ms: (user + system) / 1000, ...(problem && { problem }) }
  }
  let all = 0
  for (const [name, schema] of Object.entries(hostileSchemas)) {
    const { ms, problem } = work(schema)
    all += ms
    t.ok(ms < mostCpuMs, `${name}: ${ms} ms`)
    if (problem === undefined) continue
    t.match(problem.message, /^The JSON schema cannot be kept to: #[^ ]*: ./, name)
    t.match(problem.details, { pointer: /^#/, reason: /./ }, name)
  }
  const mean = all / Object.keys(hostileSchemas).length
  t.ok(mean < meanCpuMs, `${mean} ms of CPU time each`)
  fc.assert(
    fc.property(hostileSchema, (schema) => work(schema).ms < mostCpuMs),
    { numRuns: process.argv.includes('--all') ? 150 : 60, seed: 7 },
  )
})

t.test('what is large but can be kept to is served', async (t) => {
  const child = new Child(await tinyModel(t))
  t.teardown(() => child.end())
  const large: readonly (readonly [name: string, OutputConstraint])[] = [
    ['5,000 values', jsonSchema({ enum: list(5000, (n) => `value ${n}`) })],
    ['200 alternatives', gbnf(`root ::= ${list(200, (n) => `"${n}"`).join('|')}`)],
    ['900 literals', gbnf(`root ::= ${list(900, (n) => `"${n * 7919}"`).join('|')}`)],
    ['100,000 elements', jsonSchema({ items: { type: 'integer' }, minItems: 1, maxItems: 1e5 })],
    ['100,000 characters', jsonSchema({ type: 'string', minLength: 1e5, maxLength: 1e5 })],
    [
      '200 properties',
      jsonSchema({ properties: Object.fromEntries(list(200, (n) => [`p${n}`, {}])) }),
    ],
    ['nested repetitions', gbnf('root ::= ("a"{1000}){1000}')],
    ['10,000 rules deep', chain(10_000, (next) => next)],
    [
      'many rules of no text that each begin in 2^19 ways',
      gbnf(
        `root ::= "a"\n${list(20, (n) => `d${n + 1} ::= d${n} "x" | d${n} "y"\n`).join('')}` +
          `d0 ::= "z"\n${list(500, (n) => `r${n} ::= d19 "${n}"\n`).join('')}`,
      ),
    ],
    ['99 groups in groups', gbnf(`root ::= ${'('.repeat(99)}"a"${')'.repeat(99)}`)],
  ]
  for (const [name, constraint] of large) {
    t.match(await child.run(constraint), { drawn: 60 }, name)
  }
})

t.test('a grammar that becomes too ambiguous fails its own request only', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('Once')
  // Further away than the longest token reaches, so that it is not seen before.
  const late = gbnf(`root ::= [a-z]{60} ${'"b"? '.repeat(1100)}`)
  await backend.checkConstraint?.(late)
  const bad = backend.createSampler(sampling({ temperature: 1, constraint: late }), tokens)
  const drawn = [...tokens]
  let computed = 0
  const failing = async () => {
    while (drawn.length < tokens.length + 62) {
      const outputs = [drawn.length - 1]
      const item = { slot: 0, position: computed, tokens: drawn.slice(computed), outputs }
      const result = await backend.step([{ ...item, sampler: bad }])
      computed = drawn.length
      drawn.push(result.outputs[0]![0]!.token)
    }
  }
  await t.rejects(failing(), { code: 'invalid_constraint', status: 400, message: /1000 ways/ })
  t.ok(drawn.length > tokens.length + 3, 'after some tokens')
  bad.dispose()
  const params = { constraint: { type: 'json' } as const, temperature: 1 }
  const [after] = await generate(backend, [{ slot: 1, tokens, params, count: 5 }])
  t.equal(after!.length, 5)
})
