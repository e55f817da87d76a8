// slow: packs and installs all packages, 30 s; `pnpm lint` runs it
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'
import { killAfter } from './start-process.js'

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
  const words = ['-r', '--filter', './packages/**', 'pack', '--json', '--pack-destination', to]
  const { stdout } = await run('npx', ['-y', pnpmVersion, ...words], { cwd: root })
  // What the packages' own scripts print comes first.
  const packed = JSON.parse(stdout.slice(stdout.search(/^\[$/m))) as readonly Packed[]
  return Object.fromEntries(packed.map(({ name, filename }) => [name, `file:${filename}`]))
}

const { checkInstall } = (await import(
  new URL('../../../.ci/install-size.mjs', import.meta.url).href
)) as {
  readonly checkInstall: (modules: string) => Promise<string>
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
  t.equal(Object.keys(files).length, folders.length + 1, 'every package is packed')
  const dependencies = { cllm: files['cllm'] }
  await writeFile(
    join(app, 'package.json'),
    JSON.stringify({ private: true, dependencies, overrides: files }),
  )
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline']
  await run('npm', ['install', ...quiet], { cwd: app })

  // What is for another processor is not installed.
  for (const name of Object.keys(files).filter((name) => name !== '@cllm/linux-arm64')) {
    const contents = await readdir(join(app, 'node_modules', name))
    t.ok(contents.includes('LICENSE') && contents.includes('README.md'), name)
  }
  t.comment(await checkInstall(join(app, 'node_modules')))

  // Locks of node-llama-cpp would end a program at the signals that it handles itself.
  const listeners = `await import('@cllm/backend-llamacpp/node-llama-cpp')
    console.log(process.eventNames().filter((name) => String(name).startsWith('SIG')).length)`
  const heard = await run(process.execPath, ['--input-type=module', '-e', listeners], { cwd: app })
  t.equal(heard.stdout, '0\n')

  await t.test('in a program, with strict types', async (t) => {
    await writeFile(join(app, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
    await writeFile(join(app, 'embed.mts'), program)
    const tsc = join(root, 'node_modules', '.bin', 'tsc')
    await run(tsc, ['-p', app])
    await run(tsc, ['-p', app, '--exactOptionalPropertyTypes', 'false'])
    const { stdout } = await run(process.execPath, [join(app, 'embed.mjs')], { cwd: app })
    t.match(stdout, /^served 200 \S/)
    const wrong = `await import('cllm').then(({ serve }) => serve({ modle: 'stories15m' }))`
    const failing = run(process.execPath, ['--input-type=module', '-e', wrong], { cwd: app })
    const message = /^CllmError: serve: there is no option "modle" .* did you mean "model"\?$/m
    const { stderr } = await failing.catch((error: { stderr: string }) => error)
    t.match(stderr, message, 'a class is named as in the code')
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
  killAfter(t, child)
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
