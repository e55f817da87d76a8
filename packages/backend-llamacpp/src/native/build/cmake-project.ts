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

/** The names of CMake's targets, and of their files without prefix and suffix. */
const targets = { llama: 'cllm-llama', media: 'cllm-media' } as const

/** The file in the build folder that tells how the library was made, in lines of `name=value`. */
export const toolchainFile = 'toolchain.txt'

/** The subfolder of the build folder that the library is written to. */
export const outputFolder = 'out'

/** The files of the CMake project that are copied unchanged from the package's folder `cmake`. */
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

/** The definition file with the names that a Windows library exports. */
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

/** The folders of a build. */
export interface BuildFolders {
  /** llama.cpp's source. */
  readonly source: string
  /** cLLM's CMake project. */
  readonly project: string
  /** The build folder; both variants share it, as only ggml differs. */
  readonly build: string
}

/** `here` builds all libraries for this CPU; `media` only the one for images and sounds, for every CPU of its kind. */
export type BuildScope = 'here' | 'media'

/** The arguments with which `cmake` configures a variant. */
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

/** The arguments with which `cmake` compiles the configured variant. */
export function buildArguments({ build }: BuildFolders, jobs: number, scope: BuildScope): string[] {
  const parallel = ['--parallel', String(jobs)]
  const names = scope === 'here' ? Object.values(targets) : [targets.media]
  return ['--build', build, '--config', 'Release', '--target', ...names, ...parallel]
}

/** The least version that llama.cpp's CMake files require. */
const leastCmake = [3, 14] as const

/**
 * Checks that git and CMake are installed; CMake itself looks for a compiler.
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

/** Options of {@link RunProgram}. */
export interface ProgramOptions {
  /** Ends the program and all processes that it started; the promise then rejects with the signal's reason. */
  readonly signal: AbortSignal
  /** Called with each line that it writes. */
  readonly onLine?: (line: string) => void
}

/** Runs a program to its end. Rejects with an error of code `ENOENT` if there is no such program. */
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

/** The error if the library cannot be built here. */
export function buildFailure(message: string, cause?: unknown): CllmError {
  return new CllmError('native_build_failed', message, { cause })
}

/** The error if a program is missing; says how to install it. */
export function toolMissing(what: string, platform: string, cause?: unknown): CllmError {
  const install = installs[platform] ?? linuxInstall
  return buildFailure(`building llama.cpp needs ${what}: ${install}`, cause)
}

/** The lines of a failed program's output with the reason: from the first error on, or else the last lines. */
export function reasonIn(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const errors = lines.findIndex((line) => /\berror\b/i.test(line))
  return (errors === -1 ? lines.slice(-8) : lines.slice(errors, errors + 8)).join('\n')
}
