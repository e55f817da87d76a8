import type { Variant } from './build-info.js'
import { targetName } from './cmake-project.js'

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
