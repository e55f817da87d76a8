import {
  createEngine,
  type LogitProcessor,
  LocalEngineClient,
  PluginRegistry,
  type Sampler,
  type SamplingParams,
  SimulatedClock,
  type TokenId,
} from '@cllm/core'
import { drive, FakeBackend, firstComeFirstServed } from '@cllm/core/testing'
import t from 'tap'
import { z } from 'zod'
import { collect, counting, greedy, promptOf } from '../rig.js'

/** Remembers the processors that its samplers are made with. */
class SamplingBackend extends FakeBackend {
  override readonly capabilities = { ...new FakeBackend().capabilities, samplers: true }
  readonly made: (readonly LogitProcessor[] | undefined)[] = []

  override createSampler(
    params: SamplingParams,
    tokens: readonly TokenId[],
    _promptTokens?: number,
    processors?: readonly LogitProcessor[],
  ): Sampler {
    this.made.push(processors)
    return super.createSampler(params, tokens)
  }
}

t.test('the samplers of a request reach the backend', async (t) => {
  const registry = new PluginRegistry()
  registry.registerSampler({
    name: 'shift',
    doc: 'Adds to all.',
    options: z.object({ by: z.number().default(1) }),
    create: (options, { seed }) => ({
      apply: (logits) =>
        logits.forEach((logit, token) => {
          logits[token] = logit + (options as { by: number }).by + seed
        }),
    }),
  })
  const clock = new SimulatedClock()
  const backend = new SamplingBackend()
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock, registry })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = async (sampling: Partial<SamplingParams>) => {
    const request = greedy(promptOf(5, 5), 2)
    const changed = { ...request, sampling: { ...request.sampling, ...sampling } }
    return await drive(clock, collect(client.submit(changed)))
  }
  const samplers = [{ name: 'shift', options: { by: 5 } }, { name: 'shift' }]
  await ask({ samplers, seed: 100 })
  await ask({})
  const [first, second] = backend.made
  t.equal(second?.length, 0)
  const logits = new Float32Array(2)
  for (const processor of first ?? []) processor.apply(logits, { position: 0, tokens: [1] })
  t.same(logits, Float32Array.of(206, 206), 'each with its options and the seed')
  t.match((await ask({ samplers: [{ name: 'shft' }] })).error, {
    code: 'invalid_request',
    details: { field: 'samplers.0.name' },
  })
  t.equal(backend.made.length, 2)
})
