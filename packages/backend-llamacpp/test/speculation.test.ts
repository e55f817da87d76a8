import {
  type Backend,
  createEngine,
  type GenerateEvent,
  type GenerateRequest,
  type OutputConstraint,
  PluginRegistry,
  type SchedulerPolicy,
  systemRandom,
  type TokenId,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { firstComeFirstServed } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { openTiny } from './open-tiny.js'

/** Verifies all that is guessed, and takes the slot from a request now and then. */
function eager(): SchedulerPolicy {
  let plans = 0
  return {
    name: 'eager',
    plan(state) {
      const plan = firstComeFirstServed.plan(state)
      const victim = ++plans % 9 === 0 ? state.running.at(-1)?.id : undefined
      const preempt = victim === undefined || state.running.length < 2 ? [] : [victim]
      const draftOf = new Map(state.running.map(({ id, draft }) => [id, draft?.tokens ?? 0]))
      let left = state.limits.batchSize - plan.run.reduce((sum, { tokens }) => sum + tokens, 0)
      const run = plan.run
        .filter(({ id }) => !preempt.includes(id))
        .map((entry) => {
          const drafts = Math.min(draftOf.get(entry.id) ?? 0, left, 5)
          left -= drafts
          return { ...entry, drafts }
        })
      return { ...plan, preempt, run }
    },
  }
}

async function answers(
  backend: Backend,
  requests: readonly GenerateRequest[],
  known: readonly (readonly TokenId[])[],
  speculative = known.length === 0 ? 'off' : 'known',
) {
  const registry = new PluginRegistry()
  const propose = (tokens: readonly TokenId[], most: number) => {
    const whole = known.find((all) => tokens.every((token, index) => token === all[index]))
    const guess = whole?.slice(tokens.length, tokens.length + most) ?? []
    // Each fifth is wrong.
    return {
      tokens: guess.map((token, at) => ((tokens.length + at) % 5 === 0 ? token ^ 1 : token)),
    }
  }
  const proposer = { begin: () => ({ propose }) }
  registry.registerProposer({ name: 'known', doc: 'Knows the answers.', create: () => proposer })
  const engine = createEngine({ backend, policy: eager(), registry, options: { speculative } })
  const client = new LocalEngineClient(engine, registry, systemRandom)
  const all = await Promise.all(
    requests.map(async (request) => {
      const events: GenerateEvent[] = []
      for await (const event of client.submit(request)) events.push(event)
      return events
    }),
  )
  const { speculation } = engine.statistics()
  await engine.drain()
  for (let slot = 0; slot < backend.limits.slots; slot++) backend.release(slot)
  return { all, speculation }
}

/** What must not depend on speculation; rounding moves the last digits of probabilities. */
const comparable = (events: readonly GenerateEvent[]) =>
  events.map((event) => {
    if (event.type === 'start' || event.type === 'progress') return event.promptTokens
    if (event.type === 'end')
      return [event.reason, event.stop, event.text, event.usage.generatedTokens]
    const { token, text, logprobs } = event
    const top = logprobs?.top.map((one) => one.logprob.toFixed(2)) ?? []
    return [token, text, logprobs?.logprob.toFixed(2), ...top]
  })

const requestArbitrary = (vocabularySize: number): fc.Arbitrary<GenerateRequest> =>
  fc.record(
    {
      prompt: fc.record({
        tokens: fc.array(fc.integer({ min: 5, max: vocabularySize - 1 }), {
          minLength: 2,
          maxLength: 20,
        }),
      }),
      maxTokens: fc.integer({ min: 1, max: 30 }),
      stop: fc.array(fc.constantFrom('a', 'th', 'e '), { maxLength: 1 }),
      logprobs: fc.constantFrom(0, 2),
      cache: fc.boolean(),
      sampling: fc.record(
        {
          temperature: fc.constantFrom(0, 0.8, 1.5),
          seed: fc.nat(1000),
          topK: fc.constantFrom(0, 40),
          repetitionPenalty: fc.constantFrom(1, 1.3),
          frequencyPenalty: fc.constantFrom(0, 0.5),
          dryMultiplier: fc.constantFrom(0, 0.8),
          ignoreEos: fc.boolean(),
          constraint: fc.constantFrom<OutputConstraint>(
            { type: 'gbnf', grammar: 'root ::= ("ab" | "c")+ "."' },
            { type: 'json-schema', schema: { type: 'array', items: { type: 'integer' } } },
          ),
        },
        { requiredKeys: ['temperature', 'seed', 'topK', 'ignoreEos'] },
      ),
    },
    { requiredKeys: ['prompt', 'maxTokens', 'sampling'] },
  )

t.test('answers are the same with and without speculation', async (t) => {
  const backend = await openTiny(t)
  t.equal(backend.capabilities.drafts, true)
  const seen = { accepted: 0, refused: 0 }
  const requests = fc.array(requestArbitrary(backend.model.vocabularySize), {
    minLength: 1,
    maxLength: 5,
  })
  const property = fc.asyncProperty(requests, async (requests) => {
    const plain = await answers(backend, requests, [])
    if (plain.speculation !== undefined) throw new Error('it drafted')
    const known = plain.all.map((events, index) => {
      const { prompt } = requests[index]!
      const drawn = events.flatMap((event) => (event.type === 'token' ? [event.token] : []))
      return [...('tokens' in prompt ? prompt.tokens : []), ...drawn]
    })
    const drafted = await answers(backend, requests, known)
    const [one, other] = [plain, drafted].map(({ all }) => JSON.stringify(all.map(comparable)))
    if (one !== other) throw new Error(`${JSON.stringify(requests)}\n${one}\n${other}`)
    seen.accepted += drafted.speculation?.acceptedTokens ?? 0
    seen.refused +=
      (drafted.speculation?.draftTokens ?? 0) - (drafted.speculation?.acceptedTokens ?? 0)
  })
  await fc.assert(property, { numRuns: 40 })
  for (const [what, count] of Object.entries(seen)) t.ok(count > 50, `${count} drafts ${what}`)
})

const text = { type: 'string', maxLength: 3 }
const call = {
  type: 'object',
  properties: { name: { const: 'get_weather' }, arguments: { enum: [{ unit: 'celsius' }] } },
  required: ['name', 'arguments'],
  additionalProperties: false,
}
const person = {
  type: 'object',
  properties: { full_name: text, is_alive: { type: 'boolean' }, born: { enum: ['1815', '1906'] } },
  required: ['full_name', 'is_alive', 'born'],
  additionalProperties: false,
}

t.test('answers are the same where what a constraint forces is guessed', async (t) => {
  for (const native of ['ffi', 'addon'] as const) {
    const backend = await openTiny(t, { native })
    const seen = { accepted: 0, refused: 0 }
    const constraint = fc.constantFrom<OutputConstraint>(
      { type: 'json-schema', schema: person },
      { type: 'json-schema', schema: { type: 'array', items: person, minItems: 2 } },
      { type: 'triggered-json', trigger: '[a-z]', schema: call, closing: '</tool_call>' },
      { type: 'gbnf', grammar: 'root ::= "é€ " ("up" | "down") " and so on" [0-9]+ "."' },
    )
    const sampling = fc.record({
      temperature: fc.constantFrom(0, 0.8, 1.5),
      seed: fc.nat(1000),
      topK: fc.constantFrom(0, 40),
      constraint,
    })
    const request = fc.record({ sampling, maxTokens: fc.integer({ min: 1, max: 90 }) })
    const requests = fc.array(request, { minLength: 1, maxLength: 4 })
    const property = fc.asyncProperty(requests, async (chosen) => {
      const requests = chosen.map((one) => ({ ...one, prompt: { tokens: [7, 8, 9] } }))
      const plain = await answers(backend, requests, [])
      const drafted = await answers(backend, requests, [], 'grammar')
      const [one, other] = [plain, drafted].map(({ all }) => JSON.stringify(all.map(comparable)))
      if (one !== other) throw new Error(`${JSON.stringify(requests)}\n${one}\n${other}`)
      const { draftTokens = 0, acceptedTokens = 0 } = drafted.speculation ?? {}
      seen.accepted += acceptedTokens
      seen.refused += draftTokens - acceptedTokens
    })
    await fc.assert(property, { numRuns: 12 })
    t.ok(seen.accepted > 100, `${native}: ${JSON.stringify(seen)}`)
  }
})

t.test('models that cannot take tokens back have no drafts', async (t) => {
  for (const kind of ['gemma3', 'mamba'] as const) {
    const { capabilities } = await openTiny(t, { kind })
    t.equal(capabilities.drafts, false, kind)
  }
})
