import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
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
  try {
    const main = createRequire(import.meta.url).resolve('node-llama-cpp')
    return join(dirname(dirname(main)), 'llama', 'gitRelease.bundle')
  } catch {
    return undefined
  }
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

const folder = 'models/templates'

/**
 * The chat templates of models that llama.cpp's source holds for its own tests, by name, as the
 * installed node-llama-cpp has them.
 *
 * @param scratch - an empty folder, for a clone of the source
 * @throws where there is no git, or no node-llama-cpp
 */
export function readKnownTemplates(scratch: string): ReadonlyMap<string, string> {
  const git = (args: readonly string[], input?: string) =>
    execFileSync('git', args, { maxBuffer: 2 ** 27, stdio: 'pipe', ...(input && { input }) })
  git(['clone', '--quiet', '--bare', installedSource()!, scratch])
  const paths = git(['-C', scratch, 'ls-tree', '-r', '--name-only', 'HEAD', folder])
    .toString()
    .split('\n')
    .filter((path) => path.endsWith('.jinja'))
  const files = git(
    ['-C', scratch, 'cat-file', '--batch'],
    paths.map((path) => `HEAD:${path}\n`).join(''),
  )
  const templates = new Map<string, string>()
  let at = 0
  for (const path of paths) {
    const line = files.indexOf('\n', at)
    const size = Number(files.toString('utf8', at, line).split(' ')[2])
    const name = path.slice(folder.length + 1, -'.jinja'.length)
    templates.set(name, files.toString('utf8', line + 1, line + 1 + size))
    at = line + 2 + size
  }
  return templates
}
