import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { plainEnvironment } from '@cllm/core/testing'
import t from 'tap'

const env = plainEnvironment(process.env)
const run = async (program: string, args: readonly string[], options: { cwd?: string } = {}) =>
  await promisify(execFile)(program, args, { ...options, env })
const root = fileURLToPath(new URL('../../..', import.meta.url))
const pnpmVersion = 'pnpm@10.34.8'

interface Manifest {
  readonly name: string
  readonly dependencies?: Readonly<Record<string, string>>
}

/** Packs every package and returns their archives by the packages' names. */
async function pack(to: string): Promise<Map<string, string>> {
  const archives = new Map<string, string>()
  for (const folder of await readdir(join(root, 'packages'))) {
    const cwd = join(root, 'packages', folder)
    const manifest = JSON.parse(await readFile(join(cwd, 'package.json'), 'utf8')) as Manifest
    const { stdout } = await run('npx', ['-y', pnpmVersion, 'pack', '--pack-destination', to], {
      cwd,
    })
    archives.set(manifest.name, stdout.trim().split('\n').at(-1) ?? '')
  }
  return archives
}

t.test('the packed packages, installed into an empty folder, serve', async (t) => {
  const folder = t.testdir({ archives: {}, app: {} })
  const app = join(folder, 'app')
  const archives = await pack(join(folder, 'archives'))
  const files = Object.fromEntries([...archives].map(([name, path]) => [name, `file:${path}`]))
  await writeFile(
    join(app, 'package.json'),
    JSON.stringify({ private: true, dependencies: files, pnpm: { overrides: files } }),
  )
  // The workspace's own settings, without its packages: no GPU binaries, no build scripts.
  const settings = await readFile(join(root, 'pnpm-workspace.yaml'), 'utf8')
  await writeFile(
    join(app, 'pnpm-workspace.yaml'),
    settings.slice(settings.indexOf('\nstrictDepBuilds')),
  )
  await run('npx', ['-y', pnpmVersion, 'install', '--prefer-offline'], { cwd: app })

  const cllm = join(app, 'node_modules', '.bin', 'cllm')
  const model = join(app, 'tiny.gguf')
  await run(cllm, ['model', 'synth', '--like', 'tiny', '--out', model])
  const child = spawn(
    cllm,
    ['serve', '--model', model, '--port', '0', '--threads', '1', '--gpu', 'off'],
    { cwd: app, env, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  t.match(line, /^listening on http:/)
  const response = await fetch(`${line.replace('listening on ', '')}/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Hello', max_tokens: 4, ignore_eos: true }),
  })
  t.match(await response.json(), { success: true, data: { generated_tokens: 4 } })
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})
