// `tiers.mjs` on simulated time: the same conversations on the real engine and policy, before a backend
// whose steps take what they cost on a model of 0.6B on two quiet cores. Nothing else runs, so that the
// figures are the same each time: what of the time to a first token the engine and the load make.
import { parseArgs } from 'node:util'
import { createEngine, defaultSampling, SimulatedClock } from '../packages/core/dist/index.js'
import { drive, FakeBackend } from '../packages/testing/dist/index.js'
import { createPolicy } from '../packages/scheduler/dist/index.js'
import { LocalEngineClient } from '../packages/host/dist/index.js'
import { PluginRegistry } from '../packages/core/dist/index.js'
import { shareNames, sharesOf } from './lib/first-token-shares.mjs'
import { randomOf } from './lib/prompts.mjs'
import { median, quantile, sum, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    slots: { type: 'string', default: '4' },
    conversations: { type: 'string', default: '12' },
    turns: { type: 'string', default: '5' },
    'system-tokens': { type: 'string', default: '450' },
    'turn-tokens': { type: 'string', default: '60' },
    tokens: { type: 'string', default: '16' },
    clients: { type: 'string', default: '1,4' },
    policy: { type: 'string', default: 'adaptive+fcfs' },
    // milliseconds of a decode, of each sequence in it, of a prompt's chunk, of each token in it, and of
    // saving or restoring a token
    costs: { type: 'string', default: '25,7,20,8,0.025' },
    seed: { type: 'string', default: '1' },
  },
})
const count = (name) => Number(values[name])
const [decodeMs, sequenceMs, chunkMs, tokenMs, stateMs] = values.costs.split(',').map(Number)
const bytesOfToken = 4

function stepMs(batch) {
  const chunks = batch.filter(({ tokens }) => tokens.length > 1)
  const decodes = batch.length - chunks.length
  const lengths = new Set(chunks.map(({ tokens }) => tokens.length)).size
  const prompts = sum(chunks.map(({ tokens }) => tokens.length))
  return (decodes > 0 ? decodeMs + sequenceMs * decodes : 0) + chunkMs * lengths + tokenMs * prompts
}

async function play(cacheRamBytes, clients) {
  const random = randomOf(count('seed'))
  const tokens = (length) => Array.from({ length }, () => 1 + Math.floor(200 * random()))
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({
    clock,
    stepMs,
    stateMs: (bytes) => (stateMs * bytes) / bytesOfToken,
    slots: count('slots'),
    contextSize: 8192,
    batchSize: 512,
  })
  const policy = createPolicy(values.policy)
  const uint32 = () => Math.floor(2 ** 32 * random())
  const engine = createEngine({
    backend,
    policy,
    clock,
    random: { uint32 },
    options: { cacheRamBytes },
  })
  const client = new LocalEngineClient(engine, new PluginRegistry(), { uint32 })
  const system = tokens(count('system-tokens'))
  const texts = Array.from({ length: count('conversations') }, () => system)
  const found = { ttft: [], gaps: [], shares: [], computed: 0 }
  const ask = async (turn, one) => {
    const prompt = [...texts[one], ...tokens(count('turn-tokens'))]
    const sampling = { ...defaultSampling, temperature: 0, ignoreEos: true }
    const id = `${turn}-${one}`
    const times = []
    const said = []
    const began = clock.now()
    const request = { id, prompt: { tokens: prompt }, maxTokens: count('tokens'), sampling }
    for await (const event of client.submit(request)) {
      if (event.type === 'token') {
        times.push(clock.now())
        said.push(event.token)
      } else if (event.type === 'end' && turn > 0) {
        found.computed += event.usage.promptTokens - event.usage.cachedTokens
      }
    }
    texts[one] = [...prompt, ...said]
    if (turn === 0) return
    found.ttft.push(times[0] - began)
    found.gaps.push(...times.slice(1).map((time, index) => time - times[index]))
    const { timeline } = await client.explain(id)
    const entries = timeline.map(({ atMs, untilMs, ...more }) => ({
      ...more,
      at_ms: atMs,
      until_ms: untilMs,
    }))
    found.shares.push(sharesOf(entries, times[0] - began))
  }
  const all = async () => {
    for (let turn = 0; turn < count('turns'); turn++) {
      const waiting = [...texts.keys()]
      const one = async () => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
          await ask(turn, next)
      }
      await Promise.all(Array.from({ length: clients }, one))
    }
    await engine.close()
  }
  await drive(clock, all())
  return found
}

for (const clients of values.clients.split(',').map(Number)) {
  const alone = await play(0, clients)
  const rows = [
    ['slots alone', alone],
    ['RAM', await play(1e9, clients)],
  ]
  const round = (value) => value.toFixed(0)
  const meanOf = (shares) =>
    shares[0].map((_, at) => sum(shares.map((one) => one[at])) / shares.length)
  const over = (one, other) => (one / other).toFixed(2)
  console.log(
    table([
      [
        `${clients} at once`,
        'computed',
        'of first',
        'TTFT p50',
        'of first',
        'mean of first',
        'ITL p99',
        'of first',
        'largest',
        'of first',
        ...shareNames,
      ],
      ...rows.map(([name, { computed, ttft, gaps, shares }]) => [
        name,
        computed,
        over(computed, alone.computed),
        round(median(ttft)),
        over(median(ttft), median(alone.ttft)),
        over(sum(ttft), sum(alone.ttft)),
        round(quantile(gaps, 0.99)),
        over(quantile(gaps, 0.99), quantile(alone.gaps, 0.99)),
        round(Math.max(...gaps)),
        over(Math.max(...gaps), Math.max(...alone.gaps)),
        ...meanOf(shares).map(round),
      ]),
    ]),
  )
}
