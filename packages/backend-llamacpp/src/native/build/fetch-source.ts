import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { attempt } from '@cllm/core'
import { nodeLlamaCppVersion } from '../versions.js'
import { buildFailure, type ProgramOptions, reasonIn, type RunProgram } from './cmake-project.js'

/** What the libraries are made of: neither tests nor other tools. */
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

/** The same in an installed node-llama-cpp, as developers of cLLM have it; undefined: there is none. */
export function installedSource(): string | undefined {
  const main = attempt(() => createRequire(import.meta.url).resolve('node-llama-cpp'))
  return main && join(dirname(dirname(main)), 'llama', 'gitRelease.bundle')
}

/**
 * Writes llama.cpp's source into a new folder.
 * @param bundle - the file with it
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
