import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { buildFailure, reasonIn } from './build-failure.js'
import type { ProgramOptions, RunProgram } from './run-program.js'

/** What the library is made of: neither tests nor tools. */
const parts = ['CMakeLists.txt', 'LICENSE', 'cmake', 'ggml', 'include', 'src', 'vendor']

/** The source of llama.cpp as a git bundle, in node-llama-cpp's package. */
function sourceBundle(): string {
  const main = createRequire(import.meta.url).resolve('node-llama-cpp')
  return join(dirname(dirname(main)), 'llama', 'gitRelease.bundle')
}

/**
 * Writes llama.cpp's source into a new folder, without the network.
 * @throws CllmError `native_build_failed`
 */
export async function fetchSource(
  folder: string,
  run: RunProgram,
  options: ProgramOptions,
  bundle = sourceBundle(),
): Promise<void> {
  if (!existsSync(bundle))
    throw buildFailure(`node-llama-cpp's package lacks its source: ${bundle}`)
  const asWritten = ['-c', 'core.autocrlf=false']
  for (const args of [
    ['clone', '--quiet', '--no-checkout', bundle, folder],
    ['-C', folder, ...asWritten, 'checkout', '--quiet', 'HEAD', '--', ...parts],
  ]) {
    const { exitCode, output } = await run('git', args, options)
    if (exitCode !== 0) throw buildFailure(`git could not unpack ${bundle}:\n${reasonIn(output)}`)
  }
}
