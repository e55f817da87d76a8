import { readFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import type { Variant } from './build-info.js'
import {
  deviceFunctions,
  ggmlFunctions,
  llamaFunctions,
  mediaFunctions,
  registryFunctions,
} from '../ffi/functions.js'

/** The names of the targets and of their files, without prefix and suffix. */
const targets = { llama: 'cllm-llama', media: 'cllm-media' } as const

/** The file in the build folder that says how the library was made, as `name=value` lines. */
export const toolchainFile = 'toolchain.txt'

/** The folder in the build folder that the library is written to. */
export const outputFolder = 'out'

/** The files of the CMake project that are as they are, in the package's folder `cmake`. */
const written = ['CMakeLists.txt', 'amx-tiles.h', 'exports.map', 'exports.list'] as const

/** The files of the CMake project, by name. */
export function cmakeProject(): ReadonlyMap<string, string> {
  const functions = {
    ...llamaFunctions,
    ...ggmlFunctions,
    ...registryFunctions,
    ...deviceFunctions,
  }
  const files = new Map<string, string>()
  for (const name of written) {
    files.set(name, readFileSync(new URL(`../../../cmake/${name}`, import.meta.url), 'utf8'))
  }
  return files
    .set('exports.def', definitionsOf(functions))
    .set('exports-media.def', definitionsOf({ ...functions, ...mediaFunctions }))
}

/** The names that a library of Windows gives out. */
function definitionsOf(functions: object): string {
  const names = Object.keys(functions)
  return `EXPORTS\n${names.map((name) => `  ${name}\n`).join('')}`
}

/** A library's file name. */
export function libraryName(platform: string, target: keyof typeof targets = 'llama'): string {
  const name = targets[target]
  if (platform === 'win32') return `${name}.dll`
  return `lib${name}.${platform === 'darwin' ? 'dylib' : 'so'}`
}

const settings = {
  CMAKE_BUILD_TYPE: 'Release',
  BUILD_SHARED_LIBS: 'OFF',
  GGML_BACKEND_DL: 'OFF',
  GGML_METAL: 'OFF',
  LLAMA_ALL_WARNINGS: 'OFF',
  LLAMA_BUILD_COMMON: 'OFF',
  LLAMA_BUILD_MTMD: 'ON',
  LLAMA_BUILD_TESTS: 'OFF',
  LLAMA_BUILD_TOOLS: 'OFF',
  LLAMA_BUILD_EXAMPLES: 'OFF',
  LLAMA_BUILD_SERVER: 'OFF',
  LLAMA_BUILD_APP: 'OFF',
  LLAMA_OPENSSL: 'OFF',
  MTMD_VIDEO: 'OFF',
}

/** Where a build is. */
export interface BuildFolders {
  /** llama.cpp's source. */
  readonly source: string
  /** Our CMake project. */
  readonly project: string
  /** What is built; both variants share it, as only ggml differs. */
  readonly build: string
}

/** What is built: for the CPU here, or for every one of its kind the library for images and sounds alone. */
export type BuildScope = 'here' | 'media'

/** The arguments of `cmake` that prepare a variant. */
export function configureArguments(
  folders: BuildFolders,
  variant: Variant,
  scope: BuildScope,
): string[] {
  const defined = {
    ...settings,
    GGML_NATIVE: scope === 'here' ? 'ON' : 'OFF',
    CLLM_SOURCE: folders.source.replaceAll('\\', '/'),
    GGML_OPENMP: variant === 'openmp' ? 'ON' : 'OFF',
  }
  const definitions = Object.entries(defined).map(([name, value]) => `-D${name}=${value}`)
  return ['-S', folders.project, '-B', folders.build, ...definitions]
}

/** The arguments of `cmake` that compile what was prepared. */
export function buildArguments({ build }: BuildFolders, jobs: number, scope: BuildScope): string[] {
  const parallel = ['--parallel', String(jobs)]
  const names = scope === 'here' ? Object.values(targets) : [targets.media]
  return ['--build', build, '--config', 'Release', '--target', ...names, ...parallel]
}

/** What llama.cpp's CMake files ask for. */
const leastCmake = [3, 14] as const

/**
 * Checks that git and CMake are there; CMake itself looks for a compiler.
 * @throws CllmError `native_build_failed` that says what to install
 */
export async function checkTools(
  platform: string,
  run: RunProgram,
  options: ProgramOptions,
): Promise<void> {
  const versionOf = async (program: string) => {
    try {
      return (await run(program, ['--version'], options)).output
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      throw toolMissing(program, platform, error)
    }
  }
  await versionOf('git')
  const text = await versionOf('cmake')
  const [, major = 0, minor = 0] = (/version (\d+)\.(\d+)/.exec(text) ?? []).map(Number)
  const [least, leastMinor] = leastCmake
  if (major > least || (major === least && minor >= leastMinor)) return
  throw buildFailure(`expected cmake ${leastCmake.join('.')} or later, got ${text.split('\n')[0]}`)
}

/** How a program ended. */
export interface ProgramResult {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  /** The end of what it wrote to standard output and standard error. */
  readonly output: string
}

/** How a program is run. */
export interface ProgramOptions {
  /** Ends the program and all that it started; the promise then rejects with its reason. */
  readonly signal: AbortSignal
  /** Called with each line that it writes. */
  readonly onLine?: (line: string) => void
}

/** Runs a program to its end. Rejects with an error of code `ENOENT` when there is no such program. */
export type RunProgram = (
  program: string,
  args: readonly string[],
  options: ProgramOptions,
) => Promise<ProgramResult>

const installs: Readonly<Record<string, string>> = {
  darwin: '`xcode-select --install` and `brew install cmake`',
  win32: 'install Git, and the Build Tools for Visual Studio with C++ and CMake',
}

const linuxInstall =
  '`apt-get install git cmake make g++` on Debian and Ubuntu, ' +
  '`dnf install git cmake make gcc-c++` on Fedora'

/** Why the library cannot be built here. */
export function buildFailure(message: string, cause?: unknown): CllmError {
  return new CllmError('native_build_failed', message, { cause })
}

/** The same, for a program that is missing. */
export function toolMissing(what: string, platform: string, cause?: unknown): CllmError {
  const install = installs[platform] ?? linuxInstall
  return buildFailure(`building llama.cpp needs ${what}: ${install}`, cause)
}

/** The lines of a failed program that say why: those with an error, or else the last ones. */
export function reasonIn(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const errors = lines.findIndex((line) => /\berror\b/i.test(line))
  return (errors === -1 ? lines.slice(-8) : lines.slice(errors, errors + 8)).join('\n')
}
