import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import { chooseBuild, readBuilds } from '@cllm/backend-llamacpp/native-build'
import { defaultSampling, silentLogger, systemClock } from '@cllm/core'
import { writeSyntheticModel } from '@cllm/gguf'
import t from 'tap'
import { findNativeLibrary, thisMachine } from '../../src/engine/native-library.js'
import { nativeFolder } from '../../src/models/cache-folder.js'

t.test('the machine', async (t) => {
  const here = thisMachine()
  t.match(here, { platform: process.platform, arch: process.arch, cpu: /./ })
  const unreadable = () => {
    throw new Error('ENOENT')
  }
  t.same(thisMachine(unreadable), { ...here, features: [] })
  if (process.platform !== 'linux') return
  t.ok(here.features.length > 3, 'Linux names the instructions')
  const x64 = thisMachine(() => 'processor\t: 0\nflags\t\t: fpu sse avx2\n\nflags\t: other\n')
  t.same(x64.features, ['fpu', 'sse', 'avx2'])
  t.same(thisMachine(() => 'Features\t: fp asimd sve\n').features, ['fp', 'asimd', 'sve'])
})

t.test('the library of this machine is found, another one only named', async (t) => {
  const cache = t.testdir()
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => warnings.push(message) }
  const find = async () => await findNativeLibrary({ CLLM_CACHE: cache }, logger)
  t.equal(await find(), undefined)
  const figures = { prebuilt: { prefill: 1, decode: [1, 1, 1] } }
  const write = async (name: string, changes: object) => {
    const folder = join(nativeFolder({ env: { CLLM_CACHE: cache } }), name)
    await mkdir(folder, { recursive: true })
    const info = {
      schema: 1,
      library: 'x.so',
      fastest: 'plain',
      llamaVersion: '0.5.0-dev',
      nodeLlamaCppVersion: '3.22.1',
      machine: thisMachine(),
      compiler: '',
      flags: '',
      builtAt: '2025-01-01T00:00:00Z',
      measured: { model: 'x', threads: 1, figures },
      ...changes,
    }
    await writeFile(join(folder, 'build.json'), JSON.stringify(info))
    await writeFile(join(folder, 'x.so'), '')
    return join(folder, 'x.so')
  }
  await write('other', { machine: { ...thisMachine(), cpu: 'Other' } })
  t.equal(await find(), undefined)
  t.match(warnings, [/not used \(it was built for the CPU Other/])
  const own = await write('own', {})
  t.equal(await find(), own)
  t.equal(warnings.length, 1)
})

const installed = chooseBuild(await readBuilds(nativeFolder({ env: process.env })), thisMachine())
const library = installed.build?.library
const skip = library === undefined && 'nothing was built in the cache: see `cllm native build`'

t.test('a library that was built here computes as the prebuilt one does', { skip }, async (t) => {
  const modelPath = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: modelPath, seed: 1 })
  const compute = async (native: 'ffi' | 'prebuilt') => {
    const backend = await createLlamaCppBackend(
      { modelPath, gpu: 'off', threads: 2, slots: 2, native },
      { clock: systemClock, logger: silentLogger, library },
    )
    const tokens = backend.tokenizer.encode('Once upon a time there was a <|im_end|> llama 🦙')
    const grammar = backend.createSampler({ ...defaultSampling, temperature: 0, seed: 1 }, tokens)
    const outputs = [tokens.length - 1]
    const item = { slot: 0, position: 0, tokens, outputs, sampler: grammar, logprobs: 5 }
    const step = await backend.step([item, { ...item, slot: 1 }])
    grammar.dispose()
    const { details } = backend.model
    await backend.dispose()
    return { native: details?.['native'], tokens, drawn: step.outputs.map(([one]) => one!) }
  }
  const [built, prebuilt] = [await compute('ffi'), await compute('prebuilt')]
  t.same([built.native, prebuilt.native], ['built', 'prebuilt'])
  t.same(built.tokens, prebuilt.tokens)
  for (const [index, { logprobs }] of built.drawn.entries()) {
    const other = prebuilt.drawn[index]!.logprobs!
    for (const [rank, { logprob }] of logprobs!.top.entries()) {
      const difference = Math.abs(logprob - other.top[rank]!.logprob)
      t.ok(difference < 0.02, `rank ${rank}: ${difference}`)
    }
  }
})
