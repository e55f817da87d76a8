import t from 'tap'
import { parseBuildInfo } from '../../../src/native/build/build-info.js'
import { fastestOf, gainOver } from '../../../src/native/build/fastest-candidate.js'
import { misfitOf } from '../../../src/native/build/fit-machine.js'
import { buildInfo, machine } from './build-info.js'

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
  t.equal(misfitOf(buildInfo(), machine), undefined)
  const more = { ...machine, features: ['amx', ...machine.features] }
  t.equal(misfitOf(buildInfo(), more), undefined, 'more instructions do no harm')
  const misfits: [ReturnType<typeof buildInfo>, RegExp][] = [
    [buildInfo({ machine: { ...machine, platform: 'darwin' } }), /darwin x64.*linux x64/],
    [buildInfo({ machine: { ...machine, arch: 'arm64' } }), /linux arm64.*linux x64/],
    [buildInfo({ machine: { ...machine, cpu: 'Other' } }), /the CPU Other.*Some CPU/],
    [buildInfo({ machine: more }), /a CPU with amx$/],
    [buildInfo({ nodeLlamaCppVersion: '3.0.0' }), /node-llama-cpp 3\.0\.0/],
    [buildInfo({ llamaVersion: '0.4.0' }), /llama\.cpp 0\.4\.0/],
  ]
  for (const [info, reason] of misfits) t.match(misfitOf(info, machine), reason)
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
