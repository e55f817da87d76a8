import {
  askRouter,
  defineSampler,
  madeAs,
  PluginRegistry,
  type RoutedRequest,
  SamplerCatalog,
  type SamplerChoice,
} from '@cllm/core'
import { FakeTokenizer } from '@cllm/testing'
import t from 'tap'
import { z } from 'zod'

const context = { tokenizer: new FakeTokenizer(), seed: 7 }
const seen: unknown[] = []
const ban = defineSampler({
  name: 'ban',
  doc: 'Forbids a token.',
  options: z.object({ token: z.int().min(0), softly: z.boolean().default(false) }),
  create({ token, softly }, given) {
    seen.push(given)
    return { apply: (logits) => (logits[token] = softly ? -10 : -Infinity) }
  },
})

t.test('a sampler that fails is named in place of its backend', (t) => {
  const { samplers } = new PluginRegistry()
  const fails = (name: string, apply: () => unknown) =>
    samplers.add({ name, doc: 'Fails.', create: () => ({ apply }) })
  fails('throwing', () => {
    throw new Error('no luck')
  })
  fails('late', async () => await Promise.reject(new Error('no luck')))
  fails('other', () => new Float32Array(2))
  const place = { position: 0, tokens: [] }
  const apply = (name: string) => () =>
    samplers.create([{ name }], context)[0]?.apply(new Float32Array(2), place)
  const code = 'plugin_invalid'
  t.throws(apply('throwing'), { code, message: 'sampler "throwing": apply: no luck' })
  t.throws(apply('other'), { code, message: /^sampler "other": apply: it returned other logits/ })
  t.throws(apply('late'), { code, message: /^sampler "late": apply: it returned a promise/ })
  t.end()
})

t.test('samplers by name', async (t) => {
  const { samplers } = new PluginRegistry()
  t.same(samplers.names, [])
  t.throws(() => samplers.create([{ name: 'ban' }], context), {
    code: 'invalid_request',
    message: 'samplers.0.name: expected none is registered, instead got "ban"',
  })
  const registry = new PluginRegistry()
  registry.registerSampler(ban)
  registry.registerSampler({ name: 'add', doc: 'Adds.', create: () => ({ apply() {} }) })
  t.same(registry.samplers.names, ['add', 'ban'])
  t.throws(() => registry.registerSampler(ban), {
    code: 'plugin_conflict',
    message: 'A sampler named "ban" is registered already',
  })
  t.throws(() => registry.registerSampler({ ...ban, doc: '' }), { code: 'plugin_invalid' })

  const [first, second] = registry.samplers.create(
    [
      { name: 'ban', options: { token: 1 } },
      { name: 'ban', options: { token: 2, softly: true } },
    ],
    context,
  )
  const logits = new Float32Array(3)
  first!.apply(logits, { position: 0, tokens: [0] })
  second!.apply(logits, { position: 0, tokens: [0] })
  t.same(logits, Float32Array.of(0, -Infinity, -10))
  t.same(seen, [context, context])
})

t.test('what a request may not ask for', async (t) => {
  const catalog = new SamplerCatalog()
  catalog.add(ban)
  catalog.add({ name: 'plain', doc: 'No options.', create: () => ({ apply() {} }) })
  catalog.add({ name: 'broken', doc: 'Makes nothing.', create: () => ({}) as never })
  const cases: [unknown, RegExp][] = [
    ['ban', /^samplers: expected an array of up to 8 objects/],
    [
      Array.from({ length: 9 }, () => ({ name: 'plain' })),
      /^samplers: expected an array of up to 8/,
    ],
    [[null], /^samplers\.0\.name: expected one of ban, broken, plain/],
    [[{ name: 'plain' }, { name: 3 }], /^samplers\.1\.name: expected one of ban, broken, plain/],
    [[{ name: 'ban' }], /^samplers\.0\.options\.token: /],
    [[{ name: 'ban', options: { token: -1 } }], /^samplers\.0\.options\.token: /],
    [[{ name: 'ban', options: [] }], /^samplers\.0\.options: expected an object/],
    [
      [{ name: 'ban', options: { tokn: 1 } }],
      /^samplers\.0\.options: expected token, softly.*token/,
    ],
    [[{ name: 'plain', options: { a: 1 } }], /^samplers\.0\.options: expected no options/],
  ]
  for (const [choices, message] of cases) {
    t.throws(() => catalog.create(choices as SamplerChoice[], context), {
      code: 'invalid_request',
      message,
    })
  }
  t.throws(() => catalog.create([{ name: 'broken' }], context), { code: 'plugin_invalid' })
  t.same(catalog.create([], context), [])
})

t.test('a router that refuses says when to come again, or nothing of it', (t) => {
  const ask = (retryMs: number) => {
    const place = () => ({ refuse: 'full', retryMs })
    return askRouter({ place }, {} as RoutedRequest, [], 0)
  }
  t.same(ask(20), { refuse: 'full', retryMs: 20 })
  for (const retryMs of [NaN, -1, Infinity]) {
    t.throws(() => ask(retryMs), { message: /instead got \{ refuse: full, retryMs: / })
  }
  t.end()
})

t.test('what a catalog made is known by its name', (t) => {
  const { routers } = new PluginRegistry()
  const create = () => Object.freeze({ place: () => ({ refuse: 'full' }) })
  routers.add({ name: 'strict', doc: 'Refuses.', create })
  t.equal(madeAs(routers.create('strict')), 'strict')
  t.equal(madeAs(create()), undefined)
  t.end()
})
