import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

const cllmBin = fileURLToPath(new URL('../../packages/cli/bin/cllm.js', import.meta.url))

/** The options of `parseArgs` that `startServers` reads. */
export const serverFlags = {
  model: { type: 'string' },
  'llama-server': { type: 'string' },
  slots: { type: 'string', default: '16' },
  'ctx-size': { type: 'string', default: '2048' },
  // one of `cllm` and `llama-server`, instead of both
  only: { type: 'string' },
  // further arguments of `cllm serve`, between spaces
  extra: { type: 'string', default: '' },
  // a file for each round's figures of the two, for `readme.mjs`
  json: { type: 'string' },
}

/** Starts the servers that the flags name and lets them come to rest. */
export async function startServers(values) {
  const settings = {
    model: values.model,
    slots: Number(values.slots),
    context: Number(values['ctx-size']),
    llamaServer: values['llama-server'],
    extra: values.extra.split(' ').filter((word) => word !== ''),
  }
  const servers = []
  for (const kind of values.only === undefined ? ['llama-server', 'cllm'] : [values.only]) {
    const own = kind === 'cllm' ? settings : { ...settings, extra: [] }
    servers.push(await startServer(kind, own))
  }
  await pause(3000)
  return servers
}

/** Starts `cllm serve` or llama-server on a free port and waits until it answers. */
export async function startServer(kind, settings) {
  const { model, slots, context, llamaServer, extra = [], patienceMs } = settings
  const port = await freePort()
  const cllm = ['serve', '--model', model, '--port', port, '--slots', slots, '--ctx-size', context]
  const [command, args] =
    kind === 'cllm'
      ? [process.execPath, [cllmBin, ...cllm, '--log-level', 'warn', ...extra]]
      : [llamaServer, llamaArguments({ ...settings, port })]
  const child = spawn(command, args.map(String), { stdio: ['ignore', 'ignore', 'pipe'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  let errors = ''
  child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-4000)))
  const url = `http://127.0.0.1:${port}`
  for (let attempt = 0; ; attempt++) {
    if (child.exitCode !== null || attempt > 600)
      throw new Error(`${kind} did not start: ${errors}`)
    const response = await fetch(`${url}/health`).catch(() => undefined)
    if (response?.ok) break
    await pause(200)
  }
  return { kind, url, pid: child.pid, stop: () => stop(child, patienceMs) }
}

/** `cacheRam` is 0 unless the settings have the key; undefined: llama-server's default. */
function llamaArguments({ model, port, slots, context, extra = [], ...more }) {
  const { cacheRam } = { cacheRam: 0, ...more }
  const cache = cacheRam === undefined ? [] : ['--cache-ram', cacheRam]
  const size = slots * context
  return ['-m', model, '--port', port, '-np', slots, '-c', size, ...cache, '--no-webui', ...extra]
}

async function stop(child, patienceMs = 5000) {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs)
  await ended
  clearTimeout(timer)
}

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}
