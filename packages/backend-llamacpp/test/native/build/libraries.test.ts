import { mkdir, readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLogger, systemClock } from '@cllm/core'
import t from 'tap'
import {
  type BuildInfo,
  type Candidate,
  fastestOf,
  type Figures,
  gainOver,
  incompatibility,
  parseBuildInfo,
} from '../../../src/native/build/build-info.js'
import {
  chooseBuild,
  openWorkFolder,
  publishBuild,
  readBuilds,
  removeBuilds,
  removeFolder,
} from '../../../src/native/build/library-store.js'
import { measureLibraries } from '../../../src/native/build/measure-libraries.js'
import { loadedLibraries } from '../../../src/native/ffi/bind-functions.js'
import { openLlama } from '../../../src/native/open-llama.js'
import { buildInfo, machine } from './build-info.js'
import { recordingLogger, tinyModel } from '../../open-tiny.js'

t.test('which library is the fastest', async (t) => {
  const prebuilt = { prefill: 100, decode: [10, 20, 40] } as const
  const times = (prefill: number, one: number, eight: number, sixteen: number) => ({
    prefill: prefill * 100,
    decode: [one * 10, eight * 20, sixteen * 40] as [number, number, number],
  })
  const base = times(1, 1, 1, 1)
  t.same(base, prebuilt)
  t.equal(gainOver(times(2, 2, 2, 2), base), 2)
  t.equal(gainOver(times(4, 1, 1, 1), base).toFixed(4), Math.SQRT2.toFixed(4))
  t.equal(fastestOf({ prebuilt: base }), 'prebuilt')
  t.equal(fastestOf({ prebuilt: base, plain: times(1, 1, 1, 1.02) }), 'prebuilt', 'within noise')
  t.equal(fastestOf({ prebuilt: base, plain: times(1, 1, 1, 1.1) }), 'plain')
  t.equal(fastestOf({ prebuilt: base, openmp: times(1, 1, 1, 1.1) }), 'openmp')
  const both = { prebuilt: base, plain: times(1, 1.1, 1.1, 1.1), openmp: times(1, 1.1, 1.1, 1.2) }
  t.equal(fastestOf(both), 'openmp')
  t.equal(fastestOf({ ...both, plain: times(1.2, 1.2, 1.2, 1.2) }), 'plain')
  t.equal(fastestOf({ ...both, plain: times(0.5, 1.2, 1.1, 1.1), openmp: base }), 'prebuilt')
})

t.test('what a library was built for', async (t) => {
  t.equal(incompatibility(buildInfo(), machine), undefined)
  const more = { ...machine, features: ['amx', ...machine.features] }
  t.equal(incompatibility(buildInfo(), more), undefined, 'more instructions do no harm')
  const misfits: [ReturnType<typeof buildInfo>, RegExp][] = [
    [buildInfo({ machine: { ...machine, platform: 'darwin' } }), /darwin x64.*linux x64/],
    [buildInfo({ machine: { ...machine, arch: 'arm64' } }), /linux arm64.*linux x64/],
    [buildInfo({ machine: { ...machine, cpu: 'Other' } }), /the CPU Other.*Some CPU/],
    [buildInfo({ machine: more }), /a CPU with amx$/],
    [buildInfo({ nodeLlamaCppVersion: '3.0.0' }), /node-llama-cpp 3\.0\.0/],
    [buildInfo({ llamaVersion: '0.4.0' }), /llama\.cpp 0\.4\.0/],
  ]
  for (const [info, reason] of misfits) t.match(incompatibility(info, machine), reason)
})

t.test('what is kept beside a library', async (t) => {
  const info = buildInfo()
  t.same(parseBuildInfo(JSON.stringify(info)), info)
  for (const text of ['', '{', '[]', JSON.stringify({ ...info, schema: 2 })]) {
    t.equal(parseBuildInfo(text), undefined)
  }
  const { measured: _, ...rest } = info
  t.equal(parseBuildInfo(JSON.stringify(rest)), undefined)
})

/** Publishes a build as `cllm native build` does. */
async function publish(folder: string, changes: Partial<BuildInfo>) {
  const work = await openWorkFolder(folder)
  const file = join(work, 'libcllm-llama.so')
  await writeFile(file, 'library')
  const media = join(work, 'libcllm-media.so')
  await writeFile(media, 'media')
  const info = buildInfo(changes)
  const library = info.library === null ? undefined : file
  const build = await publishBuild(folder, work, info, library, media)
  await removeFolder(work)
  return build
}

t.test('a build is kept and found', async (t) => {
  const folder = join(t.testdir(), 'native')
  t.same(await readBuilds(folder), [], 'there is no folder')
  t.same(chooseBuild([], machine), { build: undefined, misfit: undefined })
  const build = await publish(folder, {})
  t.same(await readdir(folder), ['20250102T030405678Z-plain'])
  t.equal(await readFile(build.library!, 'utf8'), 'library')
  t.equal(await readFile(build.media!, 'utf8'), 'media')
  const builds = await readBuilds(folder)
  t.same(builds, [build])
  t.same(chooseBuild(builds, machine), { build, misfit: undefined })
  const { build: none, misfit } = chooseBuild(builds, { ...machine, cpu: 'Other' })
  t.equal(none, undefined)
  t.match(misfit, /the CPU Some CPU/)
  t.equal(await removeBuilds(folder), 1)
  t.same(await readBuilds(folder), [])
  t.equal(await removeBuilds(folder), 0)
})

t.test("a new build replaces the machine's older ones", async (t) => {
  const folder = t.testdir()
  await publish(folder, { builtAt: '2025-01-01T00:00:00Z', nodeLlamaCppVersion: '3.0.0' })
  const elsewhere = { ...machine, cpu: 'Other' }
  const other = await publish(folder, { builtAt: '2025-02-01T00:00:00Z', machine: elsewhere })
  const last = { builtAt: '2025-03-01T00:00:00Z', fastest: 'prebuilt', library: null } as const
  const build = await publish(folder, last)
  t.equal(build.library, undefined, 'the prebuilt library was the fastest')
  t.same(await readBuilds(folder), [build, other], 'the newest first')
  t.equal(chooseBuild(await readBuilds(folder), elsewhere).build?.folder, other.folder)
})

t.test('what is incomplete is left out, and removed by the next build', async (t) => {
  const folder = t.testdir()
  const first = await openWorkFolder(folder)
  await mkdir(join(folder, 'empty'))
  await mkdir(join(folder, 'build.lock'))
  const lost = await publish(folder, {})
  t.equal((await readdir(folder)).includes(first.slice(folder.length + 1)), false)
  await removeFolder(lost.library!)
  t.same(await readBuilds(folder), [], 'without its library')
  const outside = join(folder, 'outside')
  await mkdir(outside)
  await writeFile(join(folder, 'evil.so'), '')
  await writeFile(join(outside, 'build.json'), JSON.stringify(buildInfo({ library: '../evil.so' })))
  t.same(await readBuilds(folder), [], 'a library is beside its description')
  await openWorkFolder(folder)
  t.equal(await removeBuilds(folder), 0)
  t.notOk(
    (await readdir(folder)).some((name) => name.startsWith('.')),
    'nor what died',
  )
})

t.test('a library that is cut off is not used', async (t) => {
  const folder = t.testdir()
  const build = await publish(folder, {})
  t.match(build, { info: { libraryBytes: 7 }, isDamaged: false })
  await truncate(build.library!, 6)
  const builds = await readBuilds(folder)
  t.match(builds, [{ library: build.library, isDamaged: true }])
  t.same(chooseBuild(builds, machine), { build: undefined, misfit: 'its file is damaged' })
  const { libraryBytes: _, ...before } = build.info
  await writeFile(join(build.folder, 'build.json'), JSON.stringify(before))
  t.match(await readBuilds(folder), [{ isDamaged: false }], 'one that does not say its length')
})

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
