import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { attempt } from '@cllm/core'
import type { Variant } from './build-info.js'
import {
  buildArguments,
  buildFailure,
  type BuildFolders,
  type BuildScope,
  checkTools,
  cmakeProject,
  configureArguments,
  libraryName,
  outputFolder,
  type ProgramOptions,
  reasonIn,
  type RunProgram,
  toolchainFile,
  toolMissing,
} from './cmake-project.js'
import { nodeLlamaCppVersion } from '../native.js'
import { versionIn } from '../binaries.js'

/** Options of {@link buildLibraries}. */
export interface BuildOptions {
  /** An empty folder to build in; it takes up to 300 MB. */
  readonly folder: string
  readonly variants: readonly Variant[]
  /** Returns the file with llama.cpp's source, a git bundle; may fetch it into `folder`. */
  readonly source: (folder: string, signal: AbortSignal) => Promise<string>
  /** The number of files to compile at once. */
  readonly jobs: number
  /** Node.js's name of the operating system. */
  readonly platform: string
  readonly run: RunProgram
  readonly signal: AbortSignal
  /** Called with the build's progress. */
  readonly onProgress: (progress: BuildProgress) => void
}

/** A library that was built. */
export interface BuiltLibrary {
  readonly variant: Variant
  readonly file: string
  /** The library for images and sounds. */
  readonly media: string
  readonly compiler: string
  /** The compiler flags of ggml's files, which do the computing. */
  readonly flags: string
}

/**
 * Builds llama.cpp from its source, for this CPU. Leaves out a variant that the compiler does not support.
 * @throws CllmError `native_build_failed`, or the signal's reason
 */
export async function buildLibraries(options: BuildOptions): Promise<BuiltLibrary[]> {
  const folders = await unpack(options)
  const built: BuiltLibrary[] = []
  for (const variant of options.variants) {
    const library = await buildVariant(folders, variant, join(options.folder, variant), options)
    if (library !== undefined) built.push(library)
  }
  if (built.length > 0) return built
  throw buildFailure('this compiler has no OpenMP; `--variant plain` builds without it')
}

/**
 * Builds only the library for images and sounds, for every CPU of this kind (x86-64: since AVX2).
 * @returns the library's file
 * @throws CllmError `native_build_failed`, or the signal's reason
 */
export async function buildMediaLibrary(options: Surroundings): Promise<string> {
  const folders = await unpack(options)
  await make(folders, 'plain', 'media', options)
  return join(folders.build, outputFolder, libraryName(options.platform, 'media'))
}

type Surroundings = Omit<BuildOptions, 'variants'>

async function unpack(options: Surroundings): Promise<BuildFolders> {
  const { folder, source, platform, run, signal, onProgress } = options
  await checkTools(platform, run, { signal })
  const bundle = await source(folder, signal)
  onProgress({ kind: 'stage', text: 'unpacking the source of llama.cpp' })
  const at = (name: string) => join(folder, name)
  const folders = { source: at('source'), project: at('project'), build: at('build') }
  await unpackSource(bundle, folders.source, run, { signal })
  await mkdir(folders.project)
  for (const [name, text] of cmakeProject()) await writeFile(join(folders.project, name), text)
  return folders
}

async function buildVariant(
  folders: BuildFolders,
  variant: Variant,
  to: string,
  options: BuildOptions,
): Promise<BuiltLibrary | undefined> {
  const { platform } = options
  const toolchain = await make(folders, variant, 'here', options)
  if (toolchain === undefined) return undefined
  await mkdir(to)
  const copy = async (name: string) => {
    await copyFile(join(folders.build, outputFolder, name), join(to, name))
    return join(to, name)
  }
  const file = await copy(libraryName(platform))
  const media = await copy(libraryName(platform, 'media'))
  const [compiler = '', flags = ''] = ['compiler', 'flags'].map((key) => toolchain.get(key))
  return { variant, file, media, compiler, flags }
}

/** Configures and compiles a variant; undefined if the compiler does not support it. */
async function make(
  folders: BuildFolders,
  variant: Variant,
  scope: BuildScope,
  { jobs, platform, run, signal, onProgress }: Surroundings,
): Promise<ReadonlyMap<string, string> | undefined> {
  onProgress({ kind: 'stage', text: `configuring (${variant})` })
  const configured = await run('cmake', configureArguments(folders, variant, scope), { signal })
  if (configured.exitCode !== 0) throw configureFailure(configured.output, platform)
  const toolchain = await readToolchain(join(folders.build, toolchainFile))
  if (variant === 'openmp' && toolchain.get('openmp') !== 'ON') return undefined
  onProgress({ kind: 'stage', text: `compiling (${variant})` })
  const onLine = (line: string) => {
    const done = shareOf(line)
    if (done !== undefined) onProgress({ kind: 'share', done })
  }
  const compiled = await run('cmake', buildArguments(folders, jobs, scope), { signal, onLine })
  if (compiled.exitCode === 0) return toolchain
  throw buildFailure(`llama.cpp could not be compiled:\n${reasonIn(compiled.output)}`)
}

function configureFailure(output: string, platform: string): Error {
  const lacksCompiler = /No CMAKE_C(?:XX)?_COMPILER could be found|CMAKE_MAKE_PROGRAM is not set/
  if (lacksCompiler.test(output)) return toolMissing('a C++ compiler and make', platform)
  return buildFailure(`cmake could not prepare the build:\n${reasonIn(output)}`)
}

async function readToolchain(file: string): Promise<ReadonlyMap<string, string>> {
  const lines = (await readFile(file, 'utf8')).split('\n')
  return new Map(
    lines.map((line) => {
      const [name = '', ...value] = line.split('=')
      return [name, value.join('=').trim()]
    }),
  )
}

/** What a build is doing. */
export type BuildProgress =
  | { readonly kind: 'stage'; readonly text: string }
  /** How much of the stage is done, from 0 to 1. */
  | { readonly kind: 'share'; readonly done: number }

/** The finished share of a build, from 0 to 1, in a line of make (`[ 43%] …`) or Ninja (`[12/96] …`). */
export function shareOf(line: string): number | undefined {
  const percent = /^\[\s*(\d+)%\]/.exec(line)?.[1]
  if (percent !== undefined) return Number(percent) / 100
  const [, done, all] = /^\[(\d+)\/(\d+)\]/.exec(line) ?? []
  return done === undefined || Number(all) === 0 ? undefined : Number(done) / Number(all)
}

/** The parts of the source that the libraries are made of, without tests and other tools. */
const parts = [
  'CMakeLists.txt',
  'LICENSE',
  'cmake',
  'ggml',
  'include',
  'src',
  'tools/mtmd',
  'vendor',
]

/** The source of llama.cpp as a git bundle, in node-llama-cpp's package on npm. */
export const sourcePart = {
  package: `node-llama-cpp@${nodeLlamaCppVersion}`,
  file: 'package/llama/gitRelease.bundle',
} as const

/** The same bundle in an installed node-llama-cpp of that version, which developers have; undefined: there is none. */
export function installedSource(
  resolve: (name: string) => string = createRequire(import.meta.url).resolve,
): string | undefined {
  const main = attempt(() => resolve('node-llama-cpp'))
  const root = main && dirname(dirname(main))
  const isKnown = root !== undefined && versionIn(root) === nodeLlamaCppVersion
  return isKnown ? join(root, 'llama', 'gitRelease.bundle') : undefined
}

/**
 * Writes llama.cpp's source into a new folder.
 * @param bundle - the git bundle with the source
 * @throws CllmError `native_build_failed`
 */
export async function unpackSource(
  bundle: string,
  folder: string,
  run: RunProgram,
  options: ProgramOptions,
): Promise<void> {
  if (!existsSync(bundle)) throw buildFailure(`the source of llama.cpp is missing: ${bundle}`)
  const asWritten = ['-c', 'core.autocrlf=false']
  for (const args of [
    ['clone', '--quiet', '--no-checkout', bundle, folder],
    ['-C', folder, ...asWritten, 'checkout', '--quiet', 'HEAD', '--', ...parts],
  ]) {
    const { exitCode, output } = await run('git', args, options)
    if (exitCode !== 0) throw buildFailure(`git could not unpack ${bundle}:\n${reasonIn(output)}`)
  }
}
