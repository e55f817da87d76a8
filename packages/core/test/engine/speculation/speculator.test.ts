import {
  type BatchItem,
  createEngine,
  PluginRegistry,
  silentLogger,
  SimulatedClock,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { collect, counting, loggerOf } from '../../rig.js'

/** A model that says the same seven words again and again, in steps that drafts do not lengthen. */
function repeating(speculative: string, registry = new PluginRegistry()) {
  const clock = new SimulatedClock(0)
  const script = (content: readonly number[]) => 20 + (content.length % 7)
  const backend = new FakeBackend({ clock, stepMs: () => 10, script })
  const { errors, logger } = loggerOf()
  const parts = { backend, policy: firstComeFirstServed, clock, random: counting(), logger }
  const engine = createEngine({ ...parts, registry, options: { speculative } })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = async (more = {}) => {
    const request = { prompt: { tokens: [5, 6, 7] }, maxTokens: 150, ...more }
    return await drive(clock, collect(client.submit(request)))
  }
  return { backend, engine, errors, ask }
}

t.test('a policy that knows nothing of drafts has those that pay', async (t) => {
  const [off, on] = [repeating('off'), repeating('auto')]
  const [plain, drafted] = [await off.ask(), await on.ask()]
  t.same(drafted.tokens, plain.tokens)
  t.ok(on.backend.steps.length < 0.6 * off.backend.steps.length, `${on.backend.steps.length} steps`)
  const { draftTokens = 0, acceptedTokens = 0 } = drafted.end?.timings ?? {}
  t.ok(acceptedTokens > 60 && acceptedTokens <= draftTokens, `${acceptedTokens} of ${draftTokens}`)
  t.match(on.engine.statistics().speculation, { draftTokens, acceptedTokens })
  t.equal(off.engine.statistics().speculation, undefined)
  const before = on.backend.steps.length
  const { end } = await on.ask({ speculative: false })
  t.equal(end?.timings.draftTokens, undefined, 'unless the request forbids it')
  t.equal(on.backend.steps.length - before, 150)
})

/** One of three words, or of `most`. */
function chance(length: number, seed: number, most = 3): number {
  const mixed = Math.imul(Math.imul(length, 0x9e3779b1) ^ Math.imul(seed, 0x85ebca6b), 0x2c1b3c6d)
  return ((mixed ^ (mixed >>> 15)) >>> 8) % most
}

/** Milliseconds that a repeating, then a random answer take, where each draft costs a third of a step. */
async function timeOf(speculative: string, answers: number) {
  const clock = new SimulatedClock(0)
  // Pairs of three words come again and again; what follows them is known in half of the answers only.
  const script = (content: readonly number[]) =>
    content[0] === 5 ? 20 + (content.length % 7) : 20 + chance(content.length, content[1] ?? 0)
  const stepMs = (batch: readonly BatchItem[]) =>
    30 + 10 * (batch.reduce((sum, { tokens }) => sum + tokens.length, 0) - batch.length)
  const backend = new FakeBackend({ clock, stepMs, script })
  const parts = { backend, policy: firstComeFirstServed, clock, random: counting() }
  const registry = new PluginRegistry()
  const engine = createEngine({ ...parts, registry, options: { speculative } })
  const client = new LocalEngineClient(engine, registry, counting())
  const times: number[] = []
  for (let answer = 0; answer < answers; answer++) {
    const began = clock.now()
    const prompt = { tokens: [answer % 2 === 0 ? 5 : 6, 8 + answer] }
    await drive(clock, collect(client.submit({ prompt, maxTokens: 200 })))
    times.push(clock.now() - began)
  }
  const sum = (rest: number) =>
    times.reduce((all, ms, index) => (index % 2 === rest && index > 1 ? all + ms : all), 0)
  return { repeating: sum(0), random: sum(1) }
}

t.test('text that does not repeat costs little, beside text that does', async (t) => {
  const [off, on] = [await timeOf('off', 12), await timeOf('auto', 12)]
  t.ok(on.repeating < 0.6 * off.repeating, `${on.repeating / off.repeating}`)
  t.ok(on.random < 1.004 * off.random, `${on.random / off.random}`)
})

/** Words at random, among which phrases of three to seven words come back by chance, and then go on otherwise. */
function phrases(seed: number): readonly number[] {
  const words: number[] = []
  for (let at = 0; words.length < 160; at++) {
    const draw = (most: number) => chance(at, seed + most, most)
    const from = draw(Math.max(1, words.length - 8))
    if (words.length > 20 && draw(60) === 0) words.push(...words.slice(from, from + 3 + draw(5)))
    else words.push(20 + draw(80))
  }
  return words
}

t.test('a phrase that comes back by chance is no text that repeats', async (t) => {
  const timeOfPhrases = async (speculative: string) => {
    const clock = new SimulatedClock(0)
    const script = ([seed = 0, ...rest]: readonly number[]) => phrases(seed)[rest.length] ?? 20
    // As with a small model on two cores, where a dozen drafts cost six steps.
    const stepMs = (batch: readonly BatchItem[]) => {
      const tokens = batch.reduce((sum, item) => sum + item.tokens.length, 0)
      return tokens > 8 ? 15 + 12 * tokens : 6 + 14 * tokens
    }
    const backend = new FakeBackend({ clock, stepMs, script })
    const parts = { backend, policy: firstComeFirstServed, clock, random: counting() }
    const registry = new PluginRegistry()
    const engine = createEngine({ ...parts, registry, options: { speculative } })
    const client = new LocalEngineClient(engine, registry, counting())
    for (let seed = 5; seed < 25; seed++) {
      await drive(clock, collect(client.submit({ prompt: { tokens: [seed] }, maxTokens: 150 })))
    }
    return clock.now()
  }
  const [off, on] = [await timeOfPhrases('off'), await timeOfPhrases('auto')]
  t.ok(on < 1.004 * off, `${on / off}`)
})

/** Knows what comes next, but for each fifth token. */
class ForcingBackend extends FakeBackend {
  override createSampler(...of: Parameters<FakeBackend['createSampler']>) {
    const forced = (tokens: readonly number[], most: number) => {
      const next: number[] = []
      while ((tokens.length + next.length) % 5 !== 0 && next.length < most) {
        next.push(said(tokens.length + next.length))
      }
      return { tokens: next }
    }
    return Object.assign(super.createSampler(...of), { forced })
  }

  checkConstraint() {}
}

/** Nothing that was said before. */
const said = (length: number) => 20 + (length % 229)

function forcing(speculative: string, options = {}) {
  const clock = new SimulatedClock(0)
  const script = (content: readonly number[]) => said(content.length)
  const settings = { clock, stepMs: () => 10, script }
  const backend = new ForcingBackend(settings)
  const parts = { backend, policy: firstComeFirstServed, clock, random: counting(), ...options }
  const registry = new PluginRegistry()
  const engine = createEngine({ ...parts, registry, options: { speculative } })
  const client = new LocalEngineClient(engine, registry, counting())
  const sampling = { constraint: { type: 'json' as const } }
  const ask = async (more = {}) => {
    const request = { prompt: { tokens: [5, 6, 7] }, maxTokens: 150, sampling, ...more }
    return await drive(clock, collect(client.submit(request)))
  }
  return { backend, ask }
}

t.test(
  'what a constraint leaves no choice about is guessed, whoever guesses the rest',
  async (t) => {
    const plain = await forcing('off').ask()
    t.equal(plain.end?.timings.draftTokens, undefined)
    for (const name of ['grammar', 'ngram', 'auto', 'draft']) {
      const draftBackend = new FakeBackend({ script: () => 19 })
      const { backend, ask } = forcing(name, name === 'draft' ? { draftBackend } : {})
      const { tokens, end } = await ask()
      t.same(tokens, plain.tokens, name)
      t.ok(backend.steps.length < 70, `${name}: ${backend.steps.length} steps`)
      const { draftTokens = 0, acceptedTokens = 0 } = end?.timings ?? {}
      t.ok(acceptedTokens > 80 && acceptedTokens > 0.8 * draftTokens, `${name}: ${acceptedTokens}`)
    }
  },
)

t.test('nothing is forced without a constraint, or where the request forbids it', async (t) => {
  const { ask } = forcing('grammar')
  for (const more of [{ sampling: {} }, { speculative: false }]) {
    t.equal((await ask(more)).end?.timings.draftTokens, undefined)
  }
})

t.test('a proposer that changes the tokens it is given harms nobody', async (t) => {
  const registry = new PluginRegistry()
  const propose = (tokens: readonly number[]) => {
    ;(tokens as number[]).reverse().pop()
    return { tokens: [20, 21, 22] }
  }
  registry.registerProposer({
    name: 'reversing',
    doc: 'Writes to what it is to read.',
    create: () => ({ begin: () => ({ propose }) }),
  })
  const [plain, drafted] = [repeating('off'), repeating('reversing', registry)]
  t.same((await drafted.ask()).tokens, (await plain.ask()).tokens)
})

t.test('a proposer that fails guesses nothing and harms nobody', async (t) => {
  const registry = new PluginRegistry()
  const propose = () => {
    throw new Error('no idea')
  }
  const create = () => ({ begin: () => ({ propose }) })
  registry.registerProposer({ name: 'moody', doc: 'Fails.', create })
  const { errors, ask } = repeating('moody', registry)
  const { tokens, error } = await ask()
  t.equal(error, undefined)
  t.equal(tokens.length, 150)
  await ask()
  t.match(errors, [{ message: 'the proposer failed' }])
  t.equal(errors.length, 1, 'it is logged once')
})

t.test('a model that cannot verify drafts has none, and a wish for some is answered', async (t) => {
  for (const [speculative, expected] of [
    ['off', []],
    ['auto', []],
    ['ngram', [/cannot verify drafts/]],
  ] as const) {
    const warnings: string[] = []
    const logger = { ...silentLogger, warn: (_: object, text: string) => void warnings.push(text) }
    const backend = new FakeBackend({ keepMultipleOf: 8 })
    createEngine({ backend, policy: firstComeFirstServed, logger, options: { speculative } })
    t.match(warnings, expected, speculative)
    t.equal(warnings.length, expected.length)
  }
})

t.test('a proposer that there is not is refused with the names of those that are', async (t) => {
  const details = { valid: ['auto', 'off', 'grammar', 'ngram'] }
  t.throws(() => repeating('ngrams'), { code: 'invalid_configuration', details })
  t.throws(() => repeating('draft'), { code: 'invalid_configuration', details })
})
