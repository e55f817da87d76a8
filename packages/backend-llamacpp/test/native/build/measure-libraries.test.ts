import { silentLogger, systemClock } from '@cllm/core'
import t from 'tap'
import { openLlama } from '../../../src/native/addon.js'
import { measureLibraries } from '../../../src/native/build/measure-libraries.js'
import type { Candidate, Figures } from '../../../src/native/build/build-info.js'
import { loadedLibraries } from '../../../src/native/ffi/open-ffi.js'
import { recordingLogger, tinyModel } from '../../open-tiny.js'

t.test('libraries are measured in alternation', async (t) => {
  const modelPath = await tinyModel(t)
  await openLlama('off', silentLogger)
  const controller = new AbortController()
  const logger = recordingLogger()
  const measure = async (libraries: readonly (readonly [Candidate, string | undefined])[]) => {
    const done: number[] = []
    const measured = await measureLibraries({
      modelPath,
      libraries: new Map(libraries),
      threads: 1,
      cores: { cores: 2, engines: 1 },
      rounds: 2,
      clock: systemClock,
      cpuTime: () => {
        const { user, system } = process.cpuUsage()
        return (user + system) / 1000
      },
      logger,
      signal: controller.signal,
      onProgress: (share) => done.push(share),
    })
    return { ...measured, done }
  }
  const isRate = (rate: number) => Number.isFinite(rate) && rate > 10
  const areRates = ({ prefill, decode }: Figures) =>
    decode.length === 3 && [prefill, ...decode].every(isRate)
  // The symbols of its dependencies are found in it, so it can be used like one that holds everything.
  const { llama } = loadedLibraries()
  const hasAll = process.platform !== 'win32'
  const { threads, cpuShare, figures, done } = await measure([
    ['prebuilt', undefined],
    ...(hasAll ? [['plain', llama] as const] : []),
  ])
  t.equal(threads, 1)
  t.ok(cpuShare > 0 && cpuShare <= 1, `${cpuShare}`)
  t.ok(areRates(figures.prebuilt), JSON.stringify(figures))
  if (hasAll) {
    t.ok(areRates(figures.plain), JSON.stringify(figures))
    t.same(done, [0.25, 0.5, 0.75, 1])
  }
  t.ok(figures.prebuilt.decode[2] > figures.prebuilt.decode[0], 'side by side they are faster')
  t.same(logger.lines, [])

  const none = `${modelPath}.so`
  await t.rejects(measure([['openmp', none]]), { code: 'native_build_failed', message: none })
  t.match(logger.lines, [{ level: 'warn', message: none }])
  controller.abort('SIGINT')
  t.equal(await measure([['prebuilt', undefined]]).catch((reason: unknown) => reason), 'SIGINT')
})
