import { gpuInUse } from '@cllm/backend-llamacpp'
import {
  type BuildInfo,
  chooseBuild,
  readBuilds,
  removeBuilds,
} from '@cllm/backend-llamacpp/native-build'
import { silentLogger } from '@cllm/core'
import { configFrom } from '../config-flags.js'
import { thisMachine } from '../../engine/native-library.js'
import { gpuFolder, nativeFolder } from '../../models/cache-folder.js'
import { type CommandIo, tell, defineCommand } from '../command.js'
import { one, toggle } from '../flags.js'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { withLock } from '../../models/fetch/file-lock.js'
import { orInvalid } from '../../config/messages.js'
import { textTable } from '../../process/terminal.js'

/** `cllm native` */
export const run = defineCommand({
  usage: 'native',
  doc: `
Shows the llama.cpp library in use, its origin, and its measured speed. \`cllm native build\` builds
a library for this machine, \`cllm native remove\` deletes it.`,
  flags: {
    json: toggle('Print JSON'),
    config: one('FILE', 'The YAML file of `cllm serve`, for its `engine.gpu` and `engine.native`'),
  },
  async run({ flags: { json, config } }, io) {
    const { engine } = configFrom({ config }, io).config
    const gpu = await gpuInUse(engine.gpu, silentLogger, gpuFolder(io))
    const folder = nativeFolder(io)
    const { build, misfit } = chooseBuild(await readBuilds(folder), thisMachine())
    const isBuiltUsed = gpu === false && engine.native === 'ffi' && build?.library !== undefined
    const runs = engine.native === 'addon' ? 'addon' : isBuiltUsed ? build.info.fastest : 'prebuilt'
    const library = isBuiltUsed ? build.library : null
    const known = { misfit: misfit ?? null, build: build?.info ?? null }
    const figures = build === undefined ? '' : figuresTable(build.info)
    const status = { runs, library, gpu, ...known, folder }
    tell(io, json, status, () => `${inUse()}\n${figures}`)

    function inUse(): string {
      if (isBuiltUsed) {
        const { compiler, flags, builtAt, llamaVersion } = build.info
        const made = `built on ${builtAt.slice(0, 10)} with ${compiler} (${flags}), ${runs}`
        return `llama.cpp ${llamaVersion} computes in ${build.library}\n${made}`
      }
      const what = runs === 'addon' ? 'addon' : 'library'
      const where = gpu === false ? 'on the CPU' : `on the GPU (${gpu})`
      return `the prebuilt ${what} of node-llama-cpp computes ${where}\n${reason()}`
    }

    /** Why no local build is used. */
    function reason(): string {
      if (misfit !== undefined) return `local build not used: ${misfit}`
      if (build === undefined) return `no local build: \`cllm native build\` makes one`
      if (build.library === undefined) return 'local build not used: the prebuilt library is faster'
      if (gpu !== false) return 'local build not used: it is for the CPU only (`--gpu off`)'
      return `local build not used with \`engine.native\` ${engine.native}`
    }
  },
})

/** Runs `action` while no other process changes what was built in `folder`, which is created. */
export async function withNativeLock<T>(
  folder: string,
  { signal, stderr }: CommandIo,
  action: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  orInvalid(() => mkdirSync(folder, { recursive: true }), 'the folder of local builds')
  const onWait = () => void stderr.write('another process is building: waiting for it\n')
  return await withLock(join(folder, 'build'), { signal, onWait }, action)
}

/** `cllm native remove` */
export const remove = defineCommand({
  usage: 'native remove',
  doc: `
Deletes the libraries built by \`cllm native build\`. The prebuilt library is used from the next
start on.`,
  flags: {},
  async run(_, io) {
    const folder = nativeFolder(io)
    const count = await withNativeLock(folder, io, async () => await removeBuilds(folder))
    const what = count === 1 ? 'one build' : `${count} builds`
    io.stdout.write(count === 0 ? `no local builds in ${folder}\n` : `deleted ${what}\n`)
  },
})

/** Tokens per second of each library that was measured, and which was the fastest. */
export function figuresTable({ fastest, measured }: BuildInfo): string {
  const head = ['tokens/s', 'prefill', '1 sequence', '8 sequences', '16 sequences', '']
  const rows = Object.entries(measured.figures).map(([name, { prefill, decode }]) => {
    const rates = [prefill, ...decode].map((rate) => rate.toFixed(1))
    return [name, ...rates, name === fastest ? 'fastest' : '']
  })
  const threads = measured.threads === 1 ? '1 thread' : `${measured.threads} threads`
  return `${textTable(head, rows)}measured on ${measured.model}, ${threads}\n`
}
