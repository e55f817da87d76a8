import { CllmError } from '@cllm/core'
import type { Variant } from './build-info.js'
import {
  deviceFunctions,
  ggmlFunctions,
  llamaFunctions,
  registryFunctions,
} from '../ffi/functions.js'

/** The name of the target and of its file, without prefix and suffix. */
const targetName = 'cllm-llama'

/** The file in the build folder that says how the library was made, as `name=value` lines. */
export const toolchainFile = 'toolchain.txt'

/** The folder in the build folder that the library is written to. */
export const outputFolder = 'out'

const tileHeader = 'amx-tiles.h'

/**
 * One shared library of all parts. Only the C API is exported, and bound within, so that nothing meets
 * node-llama-cpp's libraries in the same process.
 */
const cmakeLists = `cmake_minimum_required(VERSION 3.14...3.28)
project(${targetName} C CXX)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_subdirectory("\${CLLM_SOURCE}" llama EXCLUDE_FROM_ALL)

set(parts llama ggml ggml-base ggml-cpu)
if(TARGET ggml-blas)
  list(APPEND parts ggml-blas)
endif()

set(objects)
foreach(part IN LISTS parts)
  list(APPEND objects $<TARGET_OBJECTS:\${part}>)
endforeach()

add_library(${targetName} SHARED \${objects})
target_link_libraries(${targetName} PRIVATE \${parts})
set_target_properties(${targetName} PROPERTIES
  LINKER_LANGUAGE CXX
  NO_SONAME ON
  LIBRARY_OUTPUT_DIRECTORY "$<1:\${CMAKE_BINARY_DIR}/${outputFolder}>"
  RUNTIME_OUTPUT_DIRECTORY "$<1:\${CMAKE_BINARY_DIR}/${outputFolder}>")

if(WIN32)
  target_sources(${targetName} PRIVATE "\${CMAKE_CURRENT_SOURCE_DIR}/exports.def")
elseif(APPLE)
  target_link_options(${targetName} PRIVATE
    "LINKER:-exported_symbols_list,\${CMAKE_CURRENT_SOURCE_DIR}/exports.list")
else()
  target_link_options(${targetName} PRIVATE
    "LINKER:--version-script,\${CMAKE_CURRENT_SOURCE_DIR}/exports.map" "LINKER:-Bsymbolic")
endif()

get_target_property(flags ggml-cpu COMPILE_OPTIONS)
string(REGEX MATCHALL "[-/](m|arch)[^; >]*" flags "\${flags}")
string(REPLACE ";" " " flags "\${flags}")
file(WRITE "\${CMAKE_BINARY_DIR}/${toolchainFile}"
  "compiler=\${CMAKE_CXX_COMPILER_ID} \${CMAKE_CXX_COMPILER_VERSION}\\n"
  "flags=\${CMAKE_CXX_FLAGS_RELEASE} \${flags}\\n"
  "openmp=\${GGML_OPENMP_ENABLED}\\n")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ggml-cpu PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include \${CMAKE_CURRENT_SOURCE_DIR}/${tileHeader}>")
endif()
`

/**
 * GCC before 12.4 and 13.3 takes only eight bytes of the configuration of AMX's tiles as read and drops the
 * stores to the others (GCC bug 114098): the first matrix then ends the process. This says that all are read.
 */
const tileConfiguration = `#ifdef __AMX_TILE__
#include <immintrin.h>
#define _tile_loadconfig(config) \\
  __asm__ volatile("ldtilecfg\\t%0" ::"m"(*(const char(*)[64])(config)))
#endif
`

/** The files of the CMake project, by name. */
export function cmakeProject(): ReadonlyMap<string, string> {
  const names = Object.keys({
    ...llamaFunctions,
    ...ggmlFunctions,
    ...registryFunctions,
    ...deviceFunctions,
  })
  return new Map([
    ['CMakeLists.txt', cmakeLists],
    [tileHeader, tileConfiguration],
    ['exports.map', '{ global: llama_*; ggml_*; local: *; };\n'],
    ['exports.list', '_llama_*\n_ggml_*\n'],
    ['exports.def', `EXPORTS\n${names.map((name) => `  ${name}\n`).join('')}`],
  ])
}

/** The library's file name. */
export function libraryName(platform: string): string {
  if (platform === 'win32') return `${targetName}.dll`
  return `lib${targetName}.${platform === 'darwin' ? 'dylib' : 'so'}`
}

const settings = {
  CMAKE_BUILD_TYPE: 'Release',
  BUILD_SHARED_LIBS: 'OFF',
  GGML_NATIVE: 'ON',
  GGML_BACKEND_DL: 'OFF',
  GGML_METAL: 'OFF',
  LLAMA_ALL_WARNINGS: 'OFF',
  LLAMA_BUILD_COMMON: 'OFF',
  LLAMA_BUILD_TESTS: 'OFF',
  LLAMA_BUILD_TOOLS: 'OFF',
  LLAMA_BUILD_EXAMPLES: 'OFF',
  LLAMA_BUILD_SERVER: 'OFF',
  LLAMA_BUILD_APP: 'OFF',
  LLAMA_OPENSSL: 'OFF',
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

/** The arguments of `cmake` that prepare a variant. */
export function configureArguments(folders: BuildFolders, variant: Variant): string[] {
  const defined = {
    ...settings,
    CLLM_SOURCE: folders.source.replaceAll('\\', '/'),
    GGML_OPENMP: variant === 'openmp' ? 'ON' : 'OFF',
  }
  const definitions = Object.entries(defined).map(([name, value]) => `-D${name}=${value}`)
  return ['-S', folders.project, '-B', folders.build, ...definitions]
}

/** The arguments of `cmake` that compile what was prepared. */
export function buildArguments({ build }: BuildFolders, jobs: number): string[] {
  const parallel = ['--parallel', String(jobs)]
  return ['--build', build, '--config', 'Release', '--target', targetName, ...parallel]
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
