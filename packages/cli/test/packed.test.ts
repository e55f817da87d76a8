// slow: packs and installs all packages, 30 s; `pnpm lint` runs it
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'

const env = plainEnvironment(process.env)
const run = async (program: string, args: readonly string[], options: { cwd?: string } = {}) =>
  await promisify(execFile)(program, args, { ...options, env })
const root = fileURLToPath(new URL('../../..', import.meta.url))
const pnpmVersion = 'pnpm@10.34.8'

interface Packed {
  readonly name: string
  /** The archive. */
  readonly filename: string
}

/** Packs every package and returns their archives by the packages' names. */
async function pack(to: string): Promise<Record<string, string>> {
  const words = ['-r', '--filter', './packages/*', 'pack', '--json', '--pack-destination', to]
  const { stdout } = await run('npx', ['-y', pnpmVersion, ...words], { cwd: root })
  // What the packages' own scripts print comes first.
  const packed = JSON.parse(stdout.slice(stdout.search(/^\[$/m))) as readonly Packed[]
  return Object.fromEntries(packed.map(({ name, filename }) => [name, `file:${filename}`]))
}

const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  module: 'nodenext',
  target: 'es2022',
  types: [],
}

const program = `import { serve } from 'cllm'

const server = await serve({ model: 'stories15m', port: 0, slots: 1 })
const { status } = await fetch(server.url + '/v1/models')
let text = ''
for await (const event of server.generate('Once upon a time')) {
  if (event.type === 'token') text += event.text
}
console.log('served', status, text)
await server.close()
`

t.test('the packed packages, installed into an empty folder, serve', async (t) => {
  const folder = t.testdir({ archives: {}, app: {} })
  const app = join(folder, 'app')
  const files = await pack(join(folder, 'archives'))
  const folders = await readdir(join(root, 'packages'))
  t.equal(Object.keys(files).length, folders.length, 'every package is packed')
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

  for (const name of Object.keys(files)) {
    const installed = await readdir(join(app, 'node_modules', name))
    t.ok(installed.includes('LICENSE') && installed.includes('README.md'), name)
  }
  const { dependencies } = JSON.parse(
    await readFile(join(app, 'node_modules/cllm/package.json'), 'utf8'),
  ) as { dependencies: Record<string, string> }
  t.notOk(Object.keys(dependencies).some((name) => name.startsWith('@opentelemetry/')))

  await t.test('in a program, with strict types', async (t) => {
    await writeFile(join(app, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
    await writeFile(join(app, 'embed.mts'), program)
    await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', app])
    const { stdout } = await run(process.execPath, [join(app, 'embed.mjs')], { cwd: app })
    t.match(stdout, /^served 200 \S/)
  })

  const cllm = join(app, 'node_modules', '.bin', 'cllm')
  const model = join(app, 'tiny.gguf')
  await run(cllm, ['model', 'synth', '--like', 'tiny', '--out', model])
  const child = spawn(
    cllm,
    // Traces too, whose code is packed into one file: nobody listens there, which costs the traces only.
    ['serve', '--model', model, '--port', '0', '--threads', '1', '--gpu', 'off'].concat([
      '--otlp-endpoint',
      'http://127.0.0.1:9',
    ]),
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
