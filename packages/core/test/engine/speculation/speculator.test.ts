import { createEngine, LocalEngineClient, PluginRegistry, SimulatedClock } from '@cllm/core'
import { drive, FakeBackend, firstComeFirstServed } from '@cllm/core/testing'
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

t.test('a proposer that there is not is refused with the names of those that are', async (t) => {
  const details = { valid: ['auto', 'off', 'ngram'] }
  t.throws(() => repeating('ngrams'), { code: 'invalid_configuration', details })
})
