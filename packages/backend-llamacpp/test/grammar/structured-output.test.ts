import { isIPv4, isIPv6 } from 'node:net'
import {
  type Backend,
  type JsonSchema,
  type OutputConstraint,
  type Sampler,
  CllmError,
} from '@cllm/core'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import * as fc from 'fast-check'
import t from 'tap'
import { z } from 'zod'
import { generate, openTiny, sampling } from '../open-tiny.js'
import { randomSchema } from './random-schemas.js'

const count = process.argv.includes('--all') ? 200 : 35

interface Output {
  readonly text: string
  /** Whether the model stopped, and was not cut. */
  readonly isWhole: boolean
}

interface Running {
  readonly index: number
  readonly slot: number
  readonly tokens: number[]
  readonly sampler: Sampler
  computed: number
}

/** Runs every constraint at temperature 1, as many at once as there are slots. */
async function outputs(
  backend: Backend,
  constraints: readonly OutputConstraint[],
  maxTokens: number,
  seed = 1,
): Promise<Output[]> {
  const { tokenizer, limits } = backend
  const prompt = tokenizer.encode('Once')
  const results: Output[] = []
  const running: Running[] = []
  const free = Array.from({ length: limits.slots }, (_, slot) => limits.slots - 1 - slot)
  let next = 0
  while (next < constraints.length || running.length > 0) {
    while (next < constraints.length && free.length > 0) {
      const index = next++
      const slot = free.pop()!
      backend.release(slot)
      const params = sampling({
        temperature: 1,
        seed: seed + index,
        constraint: constraints[index]!,
      })
      const sampler = backend.createSampler(params, prompt)
      running.push({ index, slot, tokens: [...prompt], sampler, computed: 0 })
    }
    const { outputs } = await backend.step(
      running.map(({ slot, tokens, computed, sampler }) => ({
        slot,
        position: computed,
        tokens: tokens.slice(computed),
        outputs: [tokens.length - 1],
        sampler,
      })),
    )
    for (const [at, one] of [...running.entries()].toReversed()) {
      const { token } = outputs[at]![0]!
      one.computed = one.tokens.length
      const isEnd = tokenizer.isEndOfGeneration(token)
      if (!isEnd) one.tokens.push(token)
      if (!isEnd && one.tokens.length < prompt.length + maxTokens) continue
      const decoder = tokenizer.createDecoder(prompt)
      const text = one.tokens.slice(prompt.length).map((id) => decoder.push(id))
      results[one.index] = { text: text.join(''), isWhole: isEnd }
      one.sampler.dispose()
      free.push(one.slot)
      running.splice(at, 1)
    }
  }
  return results
}

t.test('outputs of generated schemas are valid', async (t) => {
  t.setTimeout(180_000)
  const backend = await openTiny(t, { slots: 32, contextSize: 256, batchSize: 128 })
  const ajv = addFormats.default(new Ajv2020({ strict: false, ownProperties: true }))
  const schemas: JsonSchema[] = []
  const refusals = new Map<string, number>()
  for (const schema of fc.sample(randomSchema, { numRuns: 4 * count, seed: 7 })) {
    if (schemas.length === count) break
    try {
      await backend.checkConstraint?.({ type: 'json-schema', schema })
      schemas.push(schema)
    } catch (error) {
      if (!CllmError.isInstance(error) || error.code !== 'invalid_constraint') throw error
      const reason = String(error.details['reason']).slice(0, 40)
      refusals.set(reason, (refusals.get(reason) ?? 0) + 1)
    }
  }
  t.equal(schemas.length, count)
  const constraints = schemas.map((schema) => ({ type: 'json-schema', schema }) as const)
  const results = await outputs(backend, constraints, 120)
  let whole = 0
  for (const [index, { text, isWhole }] of results.entries()) {
    if (!isWhole) continue
    whole++
    const schema = schemas[index]!
    const validate = ajv.compile(schema as object)
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch (error) {
      t.fail(`${String(error)}: ${JSON.stringify(text)} of ${JSON.stringify(schema)}`)
      continue
    }
    if (validate(value) && text === text.trim()) continue
    t.fail(
      `${JSON.stringify(text)} of ${JSON.stringify(schema)}: ${ajv.errorsText(validate.errors)}`,
    )
  }
  t.ok(whole > 0.5 * count, `${whole} of ${count} came to their end`)
  t.comment(`${whole} of ${count}; refused: ${JSON.stringify([...refusals])}`)
})

t.test('what cannot be kept to is refused, and where it is', async (t) => {
  const backend = await openTiny(t)
  const deep = {
    $defs: { a: { properties: { 'x/y': { not: { uniqueItems: true } } } } },
    $ref: '#/$defs/a',
  }
  const wrong: [schema: JsonSchema, pointer: string, reason?: RegExp][] = [
    [{ type: 'integer', not: { multipleOf: 2 } }, '#/not', /keyword not/],
    [{ anyOf: [{ type: 'string', pattern: '(a)\\1' }] }, '#/anyOf/0/pattern'],
    [{ type: 'integer', multipleOf: 0 }, '#/multipleOf'],
    [{ if: { format: 'date' }, else: {} }, '#/if', /keyword if/],
    [{ properties: { a: { dependentSchemas: 1 } } }, '#/properties/a/dependentSchemas'],
    [{ type: 'string', not: { pattern: '^(?=a)b' } }, '#/not'],
    [{ not: {} }, '#', /nothing is valid/],
    [{ type: 'object', minProperties: 30 }, '#/minProperties', /30 properties/],
    [deep, '#/$defs/a/properties/x~1y/not'],
    [{ type: 'text' }, '#/type', /expected one of/],
    [{ type: 'string', minLength: -1 }, '#/minLength'],
    [{ type: 'string', minLength: 1e6 }, '#/minLength', /at most 100000/],
    [{ items: {}, minItems: 1e6 }, '#/minItems'],
    [{ required: 'a' }, '#/required'],
    [{ properties: { a: 1 } }, '#/properties/a'],
    [{ anyOf: [] }, '#/anyOf'],
    [{ type: 'string', pattern: '(' }, '#/pattern', /group/i],
    [{ type: 'string', pattern: 'a(?=a)b' }, '#/pattern', /\(\?=a\)/],
    [{ type: 'string', pattern: '(a)\\1' }, '#/pattern', /\\1/],
    [{ type: 'string', pattern: 'a(?<=a)b' }, '#/pattern'],
    [{ type: 'string', pattern: 'a(^b)' }, '#', /nothing is valid/],
    [{ patternProperties: { '(a)\\1': {} } }, '#/patternProperties'],
    [{ type: 'string', allOf: [{ pattern: '^a' }, { pattern: '^b' }] }, '#', /nothing is valid/],
    [{ enum: ['a'], format: 'date', type: 'string' }, '#', /nothing is valid/],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, '#/oneOf', /0 and 1/],
    [{ oneOf: [{ multipleOf: 2 }, { multipleOf: 3 }] }, '#/oneOf'],
    [{ $ref: '#nowhere' }, '#/$ref', /no \$anchor nowhere/],
    [{ $ref: '#/%zz' }, '#/$ref', /not a part of a URI/],
    [{ $ref: 'http://[' }, '#/$ref', /inside the schema/],
    [
      {
        $dynamicRef: '#n',
        $defs: { a: { $dynamicAnchor: 'n' }, b: { $id: 'b', $dynamicAnchor: 'n' } },
      },
      '#/$dynamicRef',
      /several schemas/,
    ],
    [{ $ref: '#' }, '#', /leads back/],
    [{ $ref: '#/$defs/none' }, '#/$ref', /nothing at/],
    [{ $ref: 'http://x/y' }, '#/$ref'],
    [false, '#', /nothing is valid/],
    [{ type: 'integer', minimum: 5, maximum: 4 }, '#', /nothing is valid/],
    [{ type: 'object', required: ['a'], additionalProperties: false }, '#', /nothing is valid/],
    [{ allOf: [{ type: 'string' }, { type: 'null' }] }, '#'],
    [{ type: 'string', enum: [1, 2] }, '#'],
    [{ anyOf: Array.from({ length: 600 }, () => ({})) }, '#', /512 alternatives/],
  ]
  for (const [schema, pointer, reason = /./] of wrong) {
    const name = JSON.stringify(schema).slice(0, 80)
    t.throws(
      () => backend.checkConstraint?.({ type: 'json-schema', schema }),
      {
        code: 'invalid_constraint',
        status: 400,
        message: `${pointer}: `,
        details: { pointer, reason },
      },
      name,
    )
  }
  const grammars: [grammar: string, line: number, column: number, reason?: RegExp][] = [
    ['', 1, 1, /no rule root/],
    ['root ::= "a', 1, 10, /unexpected/],
    ['root ::= "a"\nother ::= (root\n', 3, 1, /not closed/],
    ['root ::= "a" | nowhere', 1, 16, /no rule nowhere/],
    ['main ::= "a"', 1, 13, /no rule root/],
    ['root ::= ("a"))', 1, 15, /closing/],
    ['root ::= "a"{1,3000}', 1, 13, /2000/],
    [`root ::= ${'('.repeat(1e5)}`, 1, 110, /nested/],
    ['root := "a"', 1, 6],
  ]
  for (const [grammar, line, column, reason = /./] of grammars) {
    const wrong = { code: 'invalid_constraint', details: { line, column, reason } }
    await t.rejects(
      async () => await backend.checkConstraint?.({ type: 'gbnf', grammar }),
      wrong,
      grammar.slice(0, 30),
    )
  }
  for (const grammar of ['root ::= root "a"', 'root ::= "\\q"', 'root ::= * "a"']) {
    t.throws(() => backend.checkConstraint?.({ type: 'gbnf', grammar }), {
      code: 'invalid_constraint',
    })
  }
})

t.test('what zod, pydantic and OpenAPI tools write', async (t) => {
  const backend = await openTiny(t, { slots: 32, contextSize: 256, batchSize: 128 })
  const zods: Readonly<Record<string, z.ZodType>> = {
    mail: z.email(),
    'a time': z.iso.datetime(),
    'a duration': z.iso.duration(),
    'a host': z.hostname(),
    'two patterns': z.string().startsWith('ab').endsWith('yz').max(12),
    'a pattern and a length': z
      .string()
      .regex(/^[a-c]+\d$/)
      .min(3)
      .max(6),
    'a token': z.jwt(),
    'an emoji': z.emoji(),
    'an id': z.uuidv4(),
    'an address': z.url().max(200),
    cents: z.number().multipleOf(0.01).min(-3).max(3),
    fives: z.int().multipleOf(5),
    'a record': z.record(z.enum(['x', 'y']), z.boolean()),
    'a record of patterns': z.record(z.string().regex(/^k\d$/), z.int32()),
    'a tuple': z.tuple([z.string().max(9), z.int32()]),
    'both sides': z.intersection(z.object({ a: z.int32() }), z.object({ b: z.boolean() })),
    kinds: z.discriminatedUnion('k', [
      z.object({ k: z.literal('a'), v: z.int32() }),
      z.object({ k: z.literal('b'), w: z.boolean().optional() }),
    ]),
    nothing: z.object({ a: z.int32(), n: z.never().optional() }),
    'numeric keys': z.record(z.int32(), z.boolean()),
  }
  const name = { type: 'string', maxLength: 8 } as const
  const tools: Readonly<Record<string, Exclude<JsonSchema, boolean>>> = {
    'no other keys': { type: 'object', properties: { name }, required: ['name'] },
    decimals: { type: 'string', pattern: '^(?!^[-+.]*$)[+-]?0*\\d{0,6}\\.?\\d{0,2}$' },
    'a set': { type: 'array', uniqueItems: true, items: { enum: ['a', 'b', 3] }, minItems: 2 },
    'few keys': {
      type: 'object',
      additionalProperties: { type: 'boolean' },
      minProperties: 2,
      maxProperties: 3,
    },
    'two of three': {
      properties: { a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' } },
      minProperties: 2,
      maxProperties: 2,
    },
    'keys of a pattern': {
      type: 'object',
      patternProperties: { '^x-': { type: 'integer', maximum: 9, minimum: 0 } },
      additionalProperties: false,
      maxProperties: 2,
    },
    'one of two kinds': {
      oneOf: [
        { type: 'object', properties: { bark: { type: 'boolean' } }, required: ['bark'] },
        { type: 'object', properties: { name }, required: ['name'] },
      ],
      discriminator: { propertyName: 'kind' },
    },
    "pydantic's Decimal with its digits": {
      anyOf: [
        { type: 'number', minimum: 0, maximum: 99 },
        {
          type: 'string',
          pattern: '^(?!^[-+.]*$)[+-]?0*(?:\\d{0,4}|(?=[\\d.]{1,7}0*$)\\d{0,4}\\.\\d{0,2}0*$)',
        },
      ],
    },
    "a Decimal's digits, and its limits": {
      anyOf: [
        { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 100 },
        { type: 'string', pattern: '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d{0,2}0*$' },
      ],
    },
    'keys of a pattern and a length': {
      type: 'object',
      patternProperties: { '^[a-z]{2,4}$': { type: 'boolean' } },
      propertyNames: { maxLength: 3 },
      additionalProperties: false,
      minProperties: 1,
      maxProperties: 1,
    },
    'what contains': { type: 'array', contains: { const: 1 }, maxItems: 3 },
    dependent: {
      properties: { a: { const: 1 }, b: { const: 2 } },
      dependentRequired: { a: ['b'] },
    },
    multiples: { type: 'integer', multipleOf: 60, minimum: -100000, maximum: 1e9 },
    quarters: { type: 'number', multipleOf: 0.25 },
    'an annotation': { type: 'integer', format: 'int32', example: 3, maximum: 9, minimum: 1 },
  }
  const ajv = addFormats.default(
    new Ajv2020({
      strict: false,
      ownProperties: true,
      multipleOfPrecision: 6,
      discriminator: false,
    }),
  )
  const cases = [
    ...Object.entries(zods).map(([title, zod]) => ({
      title,
      schema: z.toJSONSchema(zod) as JsonSchema,
      accepts: (value: unknown) => zod.safeParse(value).success,
    })),
    ...Object.entries(tools).map(([title, schema]) => {
      const accepts = ajv.compile(schema)
      return { title, schema, accepts: (value: unknown) => accepts(value) }
    }),
    {
      title: 'a kind that has a default, as pydantic writes it',
      schema: {
        $defs: {
          A: { type: 'object', properties: { kind: { const: 'a', default: 'a' } } },
          B: { type: 'object', properties: { kind: { const: 'b', default: 'b' } } },
        },
        oneOf: [{ $ref: '#/$defs/A' }, { $ref: '#/$defs/B' }],
        discriminator: { propertyName: 'kind', mapping: { a: '#/$defs/A', b: '#/$defs/B' } },
      },
      accepts: (value: unknown) => ['a', 'b'].includes((value as { kind: string }).kind),
    },
    {
      title: 'keys of an enum of integers, as pydantic writes it',
      schema: {
        $defs: { N: { type: 'integer', enum: [1, 2] } },
        type: 'object',
        additionalProperties: { type: 'boolean' },
        propertyNames: { $ref: '#/$defs/N' },
        minProperties: 1,
      },
      accepts: (value: unknown) => {
        const names = Object.keys(value as object)
        return names.length > 0 && names.every((key) => ['1', '2'].includes(key))
      },
    },
    {
      title: 'digits of a Decimal',
      schema: {
        anyOf: [
          { type: 'number' },
          {
            type: 'string',
            pattern: '^(?!^[-+.]*$)[+-]?0*(?:\\d{0,4}|(?=[\\d.]{1,7}0*$)\\d{0,4}\\.\\d{0,2}0*$)',
          },
        ],
      },
      accepts: (value: unknown) => /^-?\d{1,4}(\.\d{1,2})?$/.test(String(value)),
    },
    {
      title: 'all digits of a Decimal',
      schema: {
        anyOf: [
          { type: 'number', multipleOf: 3 },
          {
            type: 'string',
            pattern: '^(?!^[-+.]*$)[+-]?0*(?:\\d{0,3}|(?=[\\d.]{1,4}0*$)\\d*\\.\\d*0*$)',
          },
          { type: 'null' },
        ],
      },
      accepts: (value: unknown) =>
        value === null || (Number.isInteger(value) && Math.abs(Number(value)) < 1000),
    },
    {
      title: 'networks',
      schema: {
        properties: {
          four: { format: 'ipv4network' },
          six: { format: 'ipv6interface' },
          packed: { format: 'base64url', maxLength: 12 },
        },
        required: ['four', 'six', 'packed'],
      },
      accepts: (value: unknown) => {
        const { four = '', six = '', packed = '' } = value as Record<string, string>
        const [address = '', bits = '32'] = four.split('/')
        const [other = '', prefix = '0'] = six.split('/')
        const isOne = isIPv4(address) && bits === '32' && isIPv6(other) && Number(prefix) <= 128
        return isOne && packed.length % 4 === 0
      },
    },
    {
      title: 'OpenAPI 3.0',
      schema: {
        type: 'object',
        properties: {
          a: { type: 'string', nullable: true, maxLength: 3 },
          b: { type: 'integer', minimum: 0, exclusiveMinimum: true, maximum: 9 },
          c: { type: 'array', items: [{ type: 'boolean' }, { type: 'null' }] },
        },
        required: ['a', 'b', 'c'],
      },
      accepts: (value: unknown) => {
        const { a, b, c, ...rest } = value as Record<string, unknown>
        const isText = a === null || typeof a === 'string'
        return (
          isText && Number(b) > 0 && (c as unknown[]).length === 2 && Object.keys(rest).length === 0
        )
      },
    },
  ]
  const seeds = 4
  const constraints = cases.flatMap(({ schema }) =>
    Array.from({ length: seeds }, () => ({ type: 'json-schema', schema }) as const),
  )
  for (const [index, { text, isWhole }] of (await outputs(backend, constraints, 200)).entries()) {
    const { title, accepts } = cases[Math.floor(index / seeds)]!
    if (isWhole) t.ok(accepts(JSON.parse(text)), `${title}: ${text}`)
    else t.comment(`${title}: cut`)
  }
})

t.test('every sequence of a batch keeps to its own constraint', async (t) => {
  const backend = await openTiny(t, { slots: 8 })
  const gbnf = (grammar: string, root?: string): OutputConstraint => ({
    type: 'gbnf',
    grammar,
    ...(root === undefined ? {} : { root }),
  })
  const constraints: [OutputConstraint, RegExp][] = [
    [gbnf('root ::= "yes" | "no"'), /^(yes|no)$/],
    [gbnf('main ::= [0-9]{4}', 'main'), /^\d{4}$/],
    [gbnf('root ::= [^a-z]{6}'), /^[^a-z]{6}$/u],
    [gbnf('root ::= .{5} "\\n"'), /^.{5}\n$/su],
    [{ type: 'json-schema', schema: { enum: ['\u20ac', 'é'] } }, /^"[€é]"$/],
    [{ type: 'json-schema', schema: { type: 'string', minLength: 9, maxLength: 9 } }, /^"/],
    [{ type: 'json-schema', schema: { type: 'integer', minimum: 98, maximum: 203 } }, /^\d+$/],
    [{ type: 'json-schema', schema: { maximum: -0.5, type: 'number' } }, /^-\d+(\.\d+)?$/],
  ]
  for (let seed = 0; seed < 20; seed++) {
    const all = constraints.map(([constraint]) => constraint)
    for (const [index, { text, isWhole }] of (
      await outputs(backend, all, 60, seed * 8)
    ).entries()) {
      t.ok(isWhole)
      t.match(text, constraints[index]![1])
      if (index === 5) t.equal(Array.from(JSON.parse(text) as string).length, 9)
    }
  }
})

t.test('a constrained sequence goes on elsewhere, and a step can be tried again', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('A letter:')
  const schema = { type: 'array', items: { type: 'string', maxLength: 6 }, minItems: 20 }
  for (const temperature of [0, 1]) {
    const params = sampling({ temperature, constraint: { type: 'json-schema', schema } })
    backend.release(0)
    const [whole] = await generate(backend, [{ slot: 0, tokens, params, count: 40 }])
    const text = backend.tokenizer.decode(whole!)
    t.match(text.trimStart(), /^\[/)
    for (const from of [1, 7, 39]) {
      const known = [...tokens, ...whole!.slice(0, from)]
      const sampler = backend.createSampler(params, known, tokens.length)
      backend.release(1)
      const position = known.length - 1
      const item = { slot: 1, position: 0, tokens: known, outputs: [position], sampler }
      const drawn: number[] = []
      for (let again = 0; again < 2; again++) {
        drawn.push((await backend.step([item])).outputs[0]![0]!.token)
        backend.release(1)
      }
      t.same(drawn, [whole![from], whole![from]], `after ${from} tokens, twice`)
      sampler.dispose()
    }
  }
  const strange = backend.createSampler(
    sampling({ constraint: { type: 'json' } }),
    [...tokens, ...tokens],
    tokens.length,
  )
  const item = { slot: 0, position: 0, tokens: [...tokens, ...tokens], sampler: strange }
  backend.release(0)
  const outputs = [2 * tokens.length - 1]
  await t.rejects(backend.step([{ ...item, outputs }]), /does not keep to the constraint/)
})

t.test('what a request says of tokens cannot break its constraint', async (t) => {
  const backend = await openTiny(t)
  const { tokenizer } = backend
  const tokens = tokenizer.encode('x')
  const constraint = { type: 'gbnf', grammar: 'root ::= "abc" "d"?' } as const
  const logitBias = Array.from(
    { length: tokenizer.vocabularySize },
    (_, id) => [id, tokenizer.isEndOfGeneration(id) ? 0 : -1e300] as const,
  )
  const endings: number[] = []
  for (const ignoreEos of [false, true]) {
    const params = { temperature: 1, constraint, logitBias, ignoreEos }
    backend.release(0)
    const [drawn] = await generate(backend, [{ slot: 0, tokens, params, count: 5 }])
    const end = drawn!.findIndex((token) => tokenizer.isEndOfGeneration(token))
    t.match(tokenizer.decode(drawn!.slice(0, end)), ignoreEos ? /^ ?abcd$/ : /^ ?abcd?$/)
    endings.push(end)
  }
  t.ok(endings.every((end) => end > 0))
})

t.test('a grammar that no token of the model can keep to fails as such', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('x')
  const request = (grammar: string) => {
    const params = { constraint: { type: 'gbnf', grammar } } as const
    return generate(backend, [{ slot: 0, tokens, params, count: 2 }])
  }
  for (const grammar of ['root ::= <[999999]>', 'root ::= "a" <[999999]>', 'root ::= "\\x00"']) {
    await t.rejects(request(grammar), {
      code: 'invalid_constraint',
      message: /cannot be kept to: none of the tokens .* can come next/,
    })
    backend.release(0)
  }
  t.equal(backend.tokenizer.decode((await request('root ::= "ab"'))[0]!), 'ab')
  backend.release(0)
  const [start] = backend.tokenizer.encode('<|im_start|>', { addBos: false })
  const [named, other] = (await request('root ::= <|im_start|> !<|im_start|>'))[0]!
  t.equal(named, start)
  t.not(other, start)
  const message = /line 1, column 10: there is no token <nothing>/
  await t.rejects(request('root ::= <nothing>'), { code: 'invalid_constraint', message })
})

t.test('JSON with text around it, as forced calls have it', async (t) => {
  const backend = await openTiny(t)
  const schema = {
    type: 'object',
    properties: { a: { enum: [1, 2] } },
    required: ['a'],
    additionalProperties: false,
  }
  const around = { before: '(?:<t>(?:[^<]|[<][^/]){0,20}<\\/t>)?\\s?<call>', closing: '</call>' }
  const constraints = Array.from(
    { length: 8 },
    () => ({ type: 'json-schema', schema, ...around }) as const,
  )
  const whole = /^ ?(<t>[^]*<\/t>)?\s?<call>\s{0,3}\{\s*"a":\s*[12]\s*\}\s{0,3}<\/call>$/
  for (const { text, isWhole } of await outputs(backend, constraints, 200)) {
    t.ok(isWhole, text)
    t.match(text, whole)
  }
  t.throws(() => backend.checkConstraint?.({ ...constraints[0]!, before: '(?<=a)b' }), {
    code: 'invalid_constraint',
  })
  const several = { ...constraints[0]!, before: '<call>', next: '<call>' }
  const calls = /^ ?(\s*<call>\s*\{\s*"a":\s*[12]\s*\}\s*<\/call>)+$/
  const counts = new Set<number>()
  for (const { text, isWhole } of await outputs(
    backend,
    Array.from({ length: 8 }, () => several),
    120,
  )) {
    if (isWhole) t.match(text, calls)
    counts.add(text.split('</call>').length - 1)
  }
  t.ok(counts.size > 1, 'one or more of them')
})

t.test('free text up to a trigger, then JSON', async (t) => {
  const backend = await openTiny(t)
  const { tokenizer } = backend
  const prompt = tokenizer.encode('x')
  const calls = {
    type: 'triggered-json',
    trigger: '<tool_call>',
    schema: { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] },
    closing: '</tool_call>',
  } as const
  const schema = { ...calls.schema, additionalProperties: false }
  /** What comes behind a text that the model wrote, until it ends. */
  const goOn = async (written: string, constraint: OutputConstraint, seed = 1) => {
    backend.release(0)
    const output = tokenizer.encode(written, { addBos: false, special: false })
    const params = { temperature: 1, constraint, seed }
    const tokens = [...prompt, ...output]
    const promptTokens = prompt.length
    const [drawn] = await generate(backend, [{ slot: 0, tokens, promptTokens, params, count: 150 }])
    const end = drawn!.findIndex((token) => tokenizer.isEndOfGeneration(token))
    return {
      text: tokenizer.decode(drawn!.slice(0, end < 0 ? undefined : end)),
      ended: end >= 0,
      drawn,
    }
  }
  const one = /^\s*\{\s*"a":\s*[12]\s*\}\s*<\/tool_call>$/
  for (const before of ['<tool_call>', 'Let me see: é€ <tool_call>', '\n<tool_call>\n']) {
    for (let seed = 0; seed < 5; seed++) {
      const { text, ended } = await goOn(before, { ...calls, schema }, seed)
      t.ok(ended, before)
      t.match(text, one, before)
    }
  }
  const rest = await goOn('<tool_call>{"a"', { ...calls, schema })
  t.match(rest.text, /^:\s*[12]\s*\}\s*<\/tool_call>$/, 'also where it began before')
  const marked = { ...calls, schema, before: '<f>' }
  t.match(
    (await goOn('<tool_call>', marked)).text,
    /^\s*<f>\s*\{\s*"a":\s*[12]\s*\}\s*<\/tool_call>$/,
  )
  const several = { ...calls, schema, next: '<tool_call>' }
  t.match(
    (await goOn('<tool_call>', several)).text,
    /^(\s*\{\s*"a":\s*[12]\s*\}\s*<\/tool_call>\s*(<tool_call>|$))/,
  )

  const atStart = { ...calls, schema, trigger: '^\\s*(?=\\{)', closing: '' }
  t.match((await goOn(' {', atStart)).text, /^\s*"a":\s*[12]\s*\}$/)
  for (const free of ['a {', '{]']) {
    const { drawn } = await goOn(free, atStart)
    const output = tokenizer.encode(free, { addBos: false, special: false })
    backend.release(0)
    const [same] = await generate(backend, [
      { slot: 0, tokens: [...prompt, ...output], params: { temperature: 1 }, count: 150 },
    ])
    t.same(drawn, same, `${free}: all of it is free`)
  }
  t.throws(() => backend.checkConstraint?.({ ...calls, schema: { type: 'strange' } }), {
    code: 'invalid_constraint',
  })
})
