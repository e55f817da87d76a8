import { overriding } from '../client/overriding.js'
import type { Clock } from '../contracts/clock.js'
import type { EngineStatistics } from '../contracts/engine/engine-statistics.js'
import { goingOn, pastOf } from '../recorder/past-statistics.js'
import type { LoadedModel, PooledModel } from './pooled-model.js'

/** Milliseconds that an engine may take to say what is kept of it before it is ended. */
const patienceMs = 1000

/** Notes what outlives an engine: its recording and counters. One that does not answer in time leaves none. */
export async function keepLastWords(
  model: PooledModel,
  { client }: LoadedModel,
  clock: Clock,
): Promise<void> {
  let cancel = (): void => {}
  const tooLate = new Promise<undefined>((resolve) => {
    cancel = clock.at(clock.now() + patienceMs, () => resolve(undefined))
  })
  const inTime = async <T>(ask: () => Promise<T> | undefined): Promise<T | undefined> =>
    await Promise.race([Promise.resolve().then(ask), tooLate]).catch(() => undefined)
  const [recording, statistics] = await Promise.all([
    inTime(() => client.recording?.()),
    inTime(() => client.statistics()),
  ])
  cancel()
  model.recording = recording ?? model.recording
  model.past = statistics === undefined ? model.past : pastOf(statistics)
}

/** A model whose counters go on from those of its engine before. */
export function continuing(loaded: LoadedModel, past: EngineStatistics | undefined): LoadedModel {
  if (past === undefined) return loaded
  const { client } = loaded
  const statistics = async (): Promise<EngineStatistics> => goingOn(await client.statistics(), past)
  return overriding(loaded, { client: overriding(client, { statistics }) })
}
