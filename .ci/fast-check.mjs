// fast-check for our tests (`load-tests.mjs` puts it in the place of the library). Properties are checked with the same
// values in every run, so that a change is judged by what it changes, and with a tenth of the runs that they ask for, 20
// at the least. In `pnpm test:nightly` the values are new ones, and ten times as many as the properties ask for.
import * as library from 'fast-check'

const isNightly = process.argv.includes('--nightly')
/** A number repeats a run; fast-check says it when a property fails. */
const seed = process.env.FAST_CHECK_SEED ?? (isNightly ? 'random' : '1')
const factor = isNightly ? 10 : 0.1
const usualRuns = 100
const fewest = 20

if (seed !== 'random') {
  library.configureGlobal({ ...library.readConfigureGlobal(), seed: Number(seed) })
}

const scaled = (settings = {}) => {
  const runs = settings.numRuns ?? usualRuns
  return { ...settings, numRuns: Math.max(Math.min(runs, fewest), Math.round(runs * factor)) }
}

export * from 'fast-check'
export const assert = (property, settings) => library.assert(property, scaled(settings))
