import {
  createEngine,
  LocalEngineClient,
  PluginRegistry,
  systemRandom,
  type Backend,
  type EngineClient,
} from '@cllm/core'
import { median } from 'simple-statistics'
import type { ModelHost, ModelSettings } from '../model-host.js'
import { runClient } from './run-client.js'
import { runHttp } from './run-http.js'
import { runSteps } from './run-steps.js'
import type { StageRun } from './stage-run.js'
import { promptsOf, type TokenWork } from './token-work.js'

/** What a stage took: the medians of its rounds. */
export interface StageResult extends StageRun {
  readonly stage: number
  readonly name: string
  readonly tokensPerSecond: number
  /** Wall time beyond native forward passes, in microseconds. */
  readonly overheadPerStepUs: number
  readonly overheadPerTokenUs: number
}

type Prompts = readonly (readonly number[])[]
type Runner = (prompts: Prompts) => Promise<StageRun>

const names = [
  'native decode alone',
  'backend step',
  'engine in process',
  'engine in its own process',
  'HTTP, whole answers',
  'HTTP, streams',
]

/** Runs the same work at every stage, `rounds` times after an unmeasured round. */
export async function measureStages(
  host: ModelHost,
  settings: ModelSettings,
  work: TokenWork,
  rounds: number,
): Promise<StageResult[]> {
  const runs = new Map<number, StageRun[]>()
  const measure = async (stages: ReadonlyMap<number, Runner>, vocabularySize: number) => {
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
    const native: Backend['step'] = (batch) => backend.forward?.(batch) ?? backend.step(batch)
    const alone = new Map<number, Runner>([
      [0, (prompts) => runSteps(backend, work, prompts, native)],
      [1, (prompts) => runSteps(backend, work, prompts)],
    ])
    await measure(alone, vocabularySize)
    const inProcess = new Map([[2, (prompts: Prompts) => runClient(client, work, prompts)]])
    await measure(inProcess, vocabularySize)
  } finally {
    // Closing the engine disposes of its backend.
    await client.close()
  }
  const served = await host.serve(settings)
  try {
    const { vocabularySize } = (await served.client.info()).model
    const stages = new Map<number, Runner>([
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

function clientOn(backend: Backend, host: ModelHost, { policy }: ModelSettings): EngineClient {
  const engine = createEngine({ backend, policy: host.policies.createPolicy(policy, {}) })
  return new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
}

function results(runs: ReadonlyMap<number, readonly StageRun[]>, work: TokenWork): StageResult[] {
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

function middle(runs: readonly StageRun[]): StageRun {
  const of = (name: keyof StageRun) => median(runs.map((run) => run[name]))
  return {
    wallMs: of('wallMs'),
    decodeMs: of('decodeMs'),
    sampleMs: of('sampleMs'),
    steps: of('steps'),
  }
}
