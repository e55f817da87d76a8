import { copyFile, mkdtemp, open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { measureLibraries } from '@cllm/backend-llamacpp'
import {
  type BuildInfo,
  buildLibraries,
  buildMediaLibrary,
  type BuildOptions,
  type BuildProgress,
  type Candidate,
  currentVersions,
  fastestOf,
  gainOver,
  installedSource,
  openWorkFolder,
  publishBuild,
  removeFolder,
  type RunProgram,
  sourcePart,
  type StoredBuild,
  variants,
} from '@cllm/backend-llamacpp/native-build'
import { CllmError, systemClock } from '@cllm/core'
import { availableCores, availableMemory } from '../../engine/available.js'
import { thisMachine } from '../../engine/native-library.js'
import { createLogger } from '../../process/logger.js'
import { meterOn } from '../../process/terminal.js'
import { nativeFolder } from '../../models/cache-folder.js'
import { resolveModel } from '../../models/resolve-model.js'
import { synthModel } from '../model/model-synth.js'
import { type CommandIo, defineCommand, type Output } from '../command.js'
import { engineLikeProcess, programRunner } from './spawn-program.js'
import { integer, one, type Values, word } from '../flags.js'
import { figuresTable, withNativeLock } from './native-status.js'

/** Most bytes of memory that one compiler takes. */
const bytesPerJob = 1.5e9

/** If the measurement gets less than this share of the cores' time, other processes have computed, too. */
const busyShare = 0.7

/** The model that is measured by default, made for it. */
const measuredModel = 'qwen3-0.6b'

const compileJobs = integer(1, 999)
const variantName = word(...variants, 'both')

const flags = {
  variant: one('NAME', "plain (llama.cpp's own threads), openmp, or both", variantName, 'both'),
  media: one('FILE', 'Build only a `--media-library`, for every CPU of this kind'),
  jobs: one('N', 'Files to compile at once (default: one per core, if memory allows)', compileJobs),
  model: one('SPEC', 'Model to measure with (default: 0.6B parameters, random weights)'),
  threads: one('N', 'Threads to measure with (default: as for `cllm serve`)', compileJobs),
}

/** `cllm native build`, in this process. */
export const nativeBuild = defineCommand({
  usage: 'native build',
  doc: `
Compiles llama.cpp for this machine's CPU from its source, which comes from npm (36 MB); this takes
minutes and needs git, CMake and a C++ compiler. Then it compares the build with the prebuilt
library and keeps the faster one: \`cllm serve\` uses it from the next start on.`,
  flags,
  async run({ flags }, io, runProgram: RunProgram = programRunner(io.env)) {
    const { show, close } = buildDisplay(io.stderr)
    const most = Math.max(1, Math.floor(availableMemory() / bytesPerJob))
    const building: Building = {
      env: io.env,
      source: async (folder, signal) => await sourceOf(folder, { ...building, signal }),
      jobs: flags.jobs ?? Math.min(availableCores(), most),
      platform: process.platform,
      run: runProgram,
      signal: io.signal,
      onProgress: show,
    }
    try {
      if (flags.media !== undefined) return await buildMedia(flags.media, building)
      const folder = nativeFolder(io)
      const { info, library } = await withNativeLock(folder, io, async (signal) => {
        const work = await openWorkFolder(folder)
        try {
          return await buildInto(folder, work, flags, { ...building, signal })
        } finally {
          await removeFolder(work)
        }
      })
      close()
      io.stdout.write(`${figuresTable(info)}${verdict(info, library)}\n`)
    } finally {
      close()
    }
  },
})

/** `cllm native build` */
export const run = engineLikeProcess(['native', 'build'], nativeBuild, '1')

/** The parts of a build, for any folder. */
type Building = Omit<BuildOptions, 'folder' | 'variants'> & Pick<CommandIo, 'env'>

async function buildMedia(file: string, building: Building): Promise<void> {
  const unwritable = (cause: Error): never => {
    const message = `${file} cannot be written: ${cause.message}`
    throw new CllmError('native_build_failed', message, { cause })
  }
  const work = await mkdtemp(`${file}.building-`).catch(unwritable)
  try {
    const built = await buildMediaLibrary({ ...building, folder: work })
    await copyFile(built, file).catch(unwritable)
  } finally {
    await removeFolder(work)
  }
}

async function buildInto(
  folder: string,
  work: string,
  { variant, model, threads: askedThreads }: Values<typeof flags>,
  building: Building,
): Promise<StoredBuild> {
  const { env, signal, onProgress: show } = building
  const machine = thisMachine()
  // Compiling takes minutes: a model that is not available is reported before.
  const given = model === undefined ? undefined : await resolveModel(model, { env, signal })
  const built = await buildLibraries({
    ...building,
    folder: work,
    variants: variant === 'both' ? variants : [variant],
  })
  const modelPath = given?.path ?? join(work, 'model.gguf')
  if (given === undefined) {
    show({ kind: 'stage', text: 'writing a model to measure with' })
    await synthModel(measuredModel, modelPath)
    signal.throwIfAborted()
  }
  show({ kind: 'stage', text: 'measuring' })
  const own = built.map(({ variant, file }) => [variant, file] as const)
  const { threads, cpuShare, figures } = await measureLibraries({
    modelPath,
    libraries: new Map<Candidate, string | undefined>([['prebuilt', undefined], ...own]),
    threads: askedThreads,
    cores: { cores: availableCores(), engines: 1 },
    clock: systemClock,
    cpuTime,
    logger: createLogger({ level: 'warn', file: null }),
    signal,
    onProgress: (done) => show({ kind: 'share', done }),
  })
  if (threads > 1 && cpuShare < busyShare) {
    show({ kind: 'stage', text: 'other processes took the cores: the figures may be wrong' })
  }
  const fastest = fastestOf(figures)
  const chosen = built.find(({ variant }) => variant === fastest)
  const { compiler, flags: compilerFlags, media } = chosen ?? built[0]!
  const info: BuildInfo = {
    schema: 1,
    library: chosen === undefined ? null : basename(chosen.file),
    fastest,
    ...currentVersions,
    machine,
    compiler,
    flags: compilerFlags,
    builtAt: new Date(systemClock.wall()).toISOString(),
    measured: { model: model ?? measuredModel, threads, figures },
  }
  return await publishBuild(folder, work, info, chosen?.file, media)
}

/** The file with the source of llama.cpp, fetched if it is not installed. */
async function sourceOf(work: string, building: Building): Promise<string> {
  const { env, signal, onProgress: show } = building
  const installed = installedSource()
  if (installed !== undefined) return installed
  show({ kind: 'stage', text: 'fetching the source of llama.cpp from npm' })
  const { fetchNpmFile, npmConfig } = await import('../../models/fetch/fetch-npm.js')
  const path = join(work, 'source.bundle')
  const file = await open(path, 'w')
  try {
    const config = await npmConfig(env, process.cwd())
    await fetchNpmFile(sourcePart, file, 0, { config, signal, onBytes: () => {} })
    return path
  } catch (cause) {
    signal.throwIfAborted()
    const message = `the source of llama.cpp cannot be fetched from npm: ${(cause as Error).message}`
    throw new CllmError('native_build_failed', message, { cause })
  } finally {
    await file.close()
  }
}

/** One line that changes if `output` is a terminal, otherwise a line for every stage and 20 %. */
export function buildDisplay(output: Output) {
  const meter = meterOn(output, '{bar} {percentage} % | {stage}', 5, (percent) => `${percent} %`)
  const show = (progress: BuildProgress): void => {
    if (progress.kind === 'share') return meter.update(Math.round(100 * progress.done), 100)
    meter.stop()
    if (output.isTTY === true) meter.update(0, 100, { stage: progress.text })
    else output.write(`${progress.text}\n`)
  }
  return { show, close: meter.stop }
}

/** CPU time of this process in milliseconds. */
function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function verdict({ fastest, measured }: BuildInfo, library: string | undefined): string {
  const { [fastest]: best, prebuilt } = measured.figures
  if (library === undefined) return 'the prebuilt library is the fastest here: it stays in use'
  const gain = gainOver(best!, prebuilt!).toFixed(2)
  return (
    `${fastest} is ${gain} times as fast as the prebuilt library: \`cllm serve\` computes on it from ` +
    `the next start on, without a GPU\n${library}`
  )
}
