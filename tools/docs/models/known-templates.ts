import { execFileSync } from 'node:child_process'
import { installedSource } from '@cllm/backend-llamacpp/native-build'

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
