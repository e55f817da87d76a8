import { createEngine, PluginRegistry, systemRandom } from '../../packages/core/dist/index.js'
import { LocalEngineClient } from '../../packages/host/dist/index.js'
import { median } from '../lib/statistics.mjs'
import { runClient } from './run-client.mjs'
import { runHttp } from './run-http.mjs'
import { runSteps } from './run-steps.mjs'
import { promptsOf } from '../../packages/bench/dist/index.js'

const names = [
  'native decode alone',
  'backend step',
  'engine in process',
  'engine in its own process',
  'HTTP, whole answers',
  'HTTP, streams',
]

/** Runs the same work at every stage, `rounds` times after an unmeasured round. */
export async function measureStages(host, settings, work, rounds) {
  const runs = new Map()
  const measure = async (stages, vocabularySize) => {
    for (let round = 0; round <= rounds; round++) {
      for (const [stage, run] of stages) {
        const result = await run(promptsOf(work, vocabularySize, 10 * round + stage))
        if (round > 0) runs.set(stage, [...(runs.get(stage) ?? []), result])
      }
    }
  }
  // One model in memory at a time, so that none takes another's cores or cache.
  const backend = await host.openBackend(settings)
  const client = clientOn(backend, host, settings)
  try {
    const { vocabularySize } = backend.tokenizer
    const alone = new Map(
      [0, 1].map((stage) => [stage, (prompts) => runSteps(backend, work, prompts)]),
    )
    await measure(alone, vocabularySize)
    const inProcess = new Map([[2, (prompts) => runClient(client, work, prompts)]])
    await measure(inProcess, vocabularySize)
  } finally {
    // Closing the engine disposes of its backend.
    await client.close()
  }
  const served = await host.serve(settings)
  try {
    const { vocabularySize } = (await served.client.info()).model
    const stages = new Map([
      [3, (prompts) => runClient(served.client, work, prompts)],
      [4, (prompts) => runHttp(served, work, prompts, false)],
      [5, (prompts) => runHttp(served, work, prompts, true)],
    ])
    await measure(stages, vocabularySize)
  } finally {
    await served.close()
  }
  return results(runs, work)
}

function clientOn(backend, host, { policy }) {
  const engine = createEngine({ backend, policy: host.policies.createPolicy(policy, {}) })
  return new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
}

function results(runs, work) {
  const all = names.map((_, stage) => {
    const run = middle(runs.get(stage) ?? [])
    // Nothing but its native calls counts for the first.
    return stage === 0 ? { ...run, wallMs: run.decodeMs, sampleMs: 0 } : run
  })
  const tokens = work.sequences * work.outputTokens
  return all.map((run, stage) => {
    const overheadUs = (run.wallMs - run.decodeMs) * 1000
    return {
      stage,
      name: names[stage] ?? '',
      ...run,
      tokensPerSecond: (tokens * 1000) / run.wallMs,
      overheadPerStepUs: overheadUs / run.steps,
      overheadPerTokenUs: overheadUs / tokens,
    }
  })
}

function middle(runs) {
  const of = (name) => median(runs.map((run) => run[name]))
  return {
    wallMs: of('wallMs'),
    decodeMs: of('decodeMs'),
    sampleMs: of('sampleMs'),
    steps: of('steps'),
  }
}
