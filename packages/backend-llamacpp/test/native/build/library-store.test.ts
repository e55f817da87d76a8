import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  chooseBuild,
  openWorkFolder,
  publishBuild,
  readBuilds,
  removeBuilds,
  removeFolder,
} from '../../../src/native/build/library-store.js'
import type { BuildInfo } from '../../../src/native/build/build-info.js'
import { buildInfo, machine } from './build-info.js'

/** Publishes a build as `cllm native build` does. */
async function publish(folder: string, changes: Partial<BuildInfo>) {
  const work = await openWorkFolder(folder)
  const file = join(work, 'libcllm-llama.so')
  await writeFile(file, 'library')
  const info = buildInfo(changes)
  const build = await publishBuild(folder, work, info, info.library === null ? undefined : file)
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
})
