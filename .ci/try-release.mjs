// Publishes every package to a registry of its own (verdaccio, fetched for this; it is too large for the workspace),
// and uses them as a stranger would: in an empty folder, with an empty home. Needs `pnpm build`.
//
//   pnpm release:try            publish, npx, serve, chat, run; then the size of what was installed
//   pnpm release:try --keep     leaves the folder, to look into
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { checkInstall } from './install-size.mjs'

/** The last line that runs on Node 20; one of its dependencies names a tag that not every registry has. */
const verdaccio = {
  private: true,
  dependencies: { verdaccio: '6.5.2' },
  overrides: { 'node-fetch': '2.7.0' },
}
const pnpm = 'pnpm@10.34.8'

const { values: flags } = parseArgs({ options: { keep: { type: 'boolean', default: false } } })
const root = fileURLToPath(new URL('..', import.meta.url))
const folder = await mkdtemp(join(tmpdir(), 'cllm-release-'))
const home = join(folder, 'home')
const app = join(folder, 'app')
for (const name of [home, app]) await mkdir(name)
const children = []
process.on('exit', () => children.forEach(stop))
for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => process.exit(1))

const say = (text) => console.log(text)

/** Runs a program to its end and returns what it printed. */
async function run(program, args, options) {
  try {
    const running = promisify(execFile)(program, args, { maxBuffer: 2 ** 26, ...options })
    running.child.stdin.end() // `cllm run` reads what is piped in
    const { stdout } = await running
    return stdout.trim()
  } catch (error) {
    throw new Error(`${[program, ...args].join(' ')}\n${error.stdout}\n${error.stderr}`, {
      cause: error,
    })
  }
}

/** Starts a program and resolves with what `pattern` finds in its output. */
async function start(program, args, pattern, options) {
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    ...options,
  })
  children.push(child)
  let heard = ''
  const found = new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        heard += `${line}\n`
        const match = pattern.exec(line)
        if (match !== null) resolve(match[1])
      })
    }
    child.once('exit', () => reject(new Error(`${program} ${args.join(' ')} ended:\n${heard}`)))
  })
  return { child, found: await found }
}

function stop(child) {
  try {
    process.kill(-child.pid, 'SIGTERM')
  } catch {
    // It has ended.
  }
}

/** Starts the registry: our packages are its own, all others come from the registry that npm is set to. */
async function startRegistry() {
  const upstream = await run('npm', ['config', 'get', 'registry'], { cwd: root })
  const config = {
    storage: join(folder, 'storage'),
    uplinks: { npm: { url: upstream, timeout: '60s', max_fails: 100 } },
    packages: {
      cllm: { access: '$all', publish: '$all' },
      '@cllm/*': { access: '$all', publish: '$all' },
      '**': { access: '$all', proxy: 'npm' },
    },
    log: { type: 'stdout', format: 'json', level: 'warn' },
  }
  const file = join(folder, 'verdaccio.yaml')
  await writeFile(file, JSON.stringify(config)) // JSON is YAML
  const port = 4873 + Math.floor(Math.random() * 20_000)
  const own = join(folder, 'verdaccio')
  await mkdir(own)
  await writeFile(join(own, 'package.json'), JSON.stringify(verdaccio))
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: own })
  const bin = join(own, 'node_modules/verdaccio/bin/verdaccio')
  const args = [bin, '--config', file, '--listen', `127.0.0.1:${port}`]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
  })
  children.push(child)
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    const isUp = await fetch(`${url}/-/ping`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isUp) return url
    if (child.exitCode !== null) throw new Error('verdaccio ended')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** A stranger's environment: nothing of this user's but the programs. */
const strangers = (registry) => ({
  PATH: process.env.PATH,
  HOME: home,
  USERPROFILE: home,
  npm_config_registry: registry,
  npm_config_update_notifier: 'false',
  npm_config_fund: 'false',
  npm_config_audit: 'false',
})

async function publish(registry) {
  const npmrc = join(folder, 'npmrc')
  const host = registry.replace('http:', '')
  await writeFile(npmrc, `registry=${registry}/\n${host}/:_authToken=anybody\n`)
  const words = [
    '-y',
    pnpm,
    '-r',
    '--filter',
    './packages/**',
    'publish',
    '--no-git-checks',
    '--registry',
    registry,
  ]
  await run('npx', words, { cwd: root, env: { ...process.env, NPM_CONFIG_USERCONFIG: npmrc } })
}

try {
  const { version } = JSON.parse(await readFile(join(root, 'packages/cli/package.json'), 'utf8'))
  const registry = await startRegistry()
  await publish(registry)
  say(`published ${version} to ${registry}`)

  const env = strangers(registry)
  const printed = await run('npx', ['-y', `cllm@${version}`, '--version'], { cwd: app, env })
  if (printed !== version) throw new Error(`npx cllm --version printed ${printed}`)
  say(`npx cllm@${version} --version: ${printed}`)

  await run('npm', ['install', 'cllm'], { cwd: app, env })
  say(await checkInstall(join(app, 'node_modules')))
  const cllm = join(app, 'node_modules', '.bin', 'cllm')
  const words = ['serve', '--model', 'stories15m', '--port', '0', '--gpu', 'off']
  const server = await start(cllm, words, /^listening on (\S+)/, { cwd: app, env })
  const response = await fetch(`${server.found}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Once' }], max_tokens: 8 }),
  })
  const answer = await response.json()
  if (answer.usage?.completion_tokens !== 8) throw new Error(JSON.stringify(answer))
  say(`cllm serve answered: ${JSON.stringify(answer.choices[0].message.content)}`)
  const page = await fetch(`${server.found}/ui/`)
  if (!page.ok || !/<script/.test(await page.text())) throw new Error('there is no web page')
  const ended = once(server.child, 'exit')
  stop(server.child)
  const [code] = await ended
  if (code !== 0) throw new Error(`cllm serve ended with ${code}`)

  const text = await run(cllm, ['run', 'stories15m', 'Once upon a time'], { cwd: app, env })
  if (text === '') throw new Error('cllm run printed nothing')
  say(`cllm run answered ${text.length} characters`)

  const bench = join(app, 'report.html')
  const simulate = ['simulate', '--requests', '20', '--policy', 'adaptive+fcfs', '--report', bench]
  await run(cllm, simulate, { cwd: app, env })
  if (!/<svg/.test(await readFile(bench, 'utf8'))) throw new Error('cllm simulate wrote no report')
  say('cllm simulate wrote a report')
} finally {
  for (const child of children) stop(child)
  if (flags.keep) say(`left in ${folder}`)
  else await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}
