import { overriding } from '../client/wrapping.js'
import { within, type Clock, type EngineStatistics } from '@cllm/core'
import { pastOf, sumStatistics } from '../statistics/sum-statistics.js'
import type { LoadedModel, PooledModel } from './pooled-model.js'

/** Milliseconds that an engine may take to say what is kept of it before it is ended. */
const patienceMs = 1000

/** Notes what outlives an engine: its recording and counters. One that does not answer in time leaves none. */
export async function keepFinalStatistics(
  model: PooledModel,
  { client }: LoadedModel,
  clock: Clock,
): Promise<void> {
  const inTime = async <T>(ask: () => Promise<T> | undefined): Promise<T | undefined> =>
    await within(clock, patienceMs, Promise.resolve().then(ask), () => undefined).catch(
      () => undefined,
    )
  const [recording, statistics] = await Promise.all([
    inTime(() => client.recording?.()),
    inTime(() => client.statistics()),
  ])
  model.recording = recording ?? model.recording
  model.past = statistics === undefined ? model.past : pastOf(statistics)
}

/** A model whose counters go on from those of its engine before. */
export function continuing(loaded: LoadedModel, past: EngineStatistics | undefined): LoadedModel {
  if (past === undefined) return loaded
  const { client } = loaded
  const statistics = async (): Promise<EngineStatistics> =>
    sumStatistics(await client.statistics(), past)
  return overriding(loaded, { client: overriding(client, { statistics }) })
}
