import { buildFailure, toolMissing } from './build-failure.js'
import type { ProgramOptions, RunProgram } from './run-program.js'

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
