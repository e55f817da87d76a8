import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { RedisServer } from '../../packages/cluster/test/redis-server.js'
import { childrenOf } from './processes.mjs'

const bin = fileURLToPath(new URL('../../packages/cli/bin/cllm.js', import.meta.url))
const running = new Set()
const servers = new Set()
const folders = new Set()
process.once('exit', () => {
  running.forEach((child) => child.kill('SIGKILL'))
  servers.forEach((server) => void server.kill())
  folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }))
})

/** A process of `cllm`, once it has printed its first line. */
async function startProcess(args, { inside = [] } = {}) {
  const [command, ...words] = [...inside, process.execPath, bin, ...args.map(String)]
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  const ended = once(child, 'exit').then(([code]) => (running.delete(child), code))
  let errors = ''
  child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-4000)))
  const line = await Promise.race([
    once(createInterface(child.stdout), 'line').then(String),
    ended.then((code) => Promise.reject(new Error(`${args[0]} ended with ${code}: ${errors}`))),
  ])
  const all = () => [child.pid, ...childrenOf(child.pid)]
  return {
    line,
    pid: child.pid,
    ended,
    /** Sends a signal to it and to its engine. */
    signal: (name) => all().forEach((pid) => process.kill(pid, name)),
    kill: () => child.kill('SIGKILL'),
    async stop() {
      child.kill('SIGTERM')
      return await ended
    },
  }
}

/** A Redis server of its own, with workers and fronts on it. */
export async function startCluster({
  model,
  slots,
  threads = 1,
  extra = [],
  durable = false,
  bind,
}) {
  const folder = mkdtempSync(join(tmpdir(), 'cllm-cluster-'))
  folders.add(folder)
  const disk = durable ? ['--dir', folder, '--appendonly', 'yes'] : []
  const address = bind === undefined ? [] : ['--bind', '127.0.0.1', bind, '--protected-mode', 'no']
  const redis = await RedisServer.start(...disk, ...address)
  servers.add(redis)
  const plain = ['--log-level', 'silent', '--cluster']
  const usual = ['--model', model, '--gpu', 'off', '--threads', threads, '--slots', slots]
  return {
    redis,
    async worker({ url = redis.url, inside, more = [] } = {}) {
      const args = ['worker', ...plain, url, ...usual, '--ctx-size', 512, ...extra, ...more]
      const started = await startProcess(args, { inside })
      return { ...started, id: started.line.split(' ')[1] }
    },
    async front(...more) {
      const started = await startProcess(['serve', '--port', 0, ...plain, redis.url, ...more])
      return { ...started, url: started.line.replace('listening on ', '') }
    },
  }
}

/** `cllm serve` with an engine of its own. */
export async function startAlone({ model, slots, threads = 1 }) {
  const usual = ['--model', model, '--gpu', 'off', '--threads', threads, '--slots', slots]
  const words = ['serve', '--port', 0, '--log-level', 'silent', '--ctx-size', 512, ...usual]
  const started = await startProcess(words)
  return { ...started, url: started.line.replace('listening on ', '') }
}

const host = '10.231.77.1'
const guest = '10.231.77.2'

/** A network namespace for one worker, with ways to cut it off; undefined where that is not allowed. */
export function startNamespace() {
  const name = `cllm${process.pid}`
  const [near, far] = [`ca${process.pid % 1e6}`, `cb${process.pid % 1e6}`]
  const ip = (...words) => execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] })
  try {
    ip('netns', 'add', name)
  } catch {
    return undefined
  }
  process.once('exit', () => ip('netns', 'del', name))
  ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far)
  ip('link', 'set', far, 'netns', name)
  ip('addr', 'add', `${host}/24`, 'dev', near)
  ip('link', 'set', near, 'up')
  for (const words of [
    ['addr', 'add', `${guest}/24`, 'dev', far],
    ['link', 'set', far, 'up'],
    ['link', 'set', 'lo', 'up'],
  ]) {
    ip('-n', name, ...words)
  }
  return {
    host,
    inside: ['ip', 'netns', 'exec', name],
    cut: () => ip('link', 'set', near, 'down'),
    mend: () => ip('link', 'set', near, 'up'),
    /** What the worker sends does not arrive; it hears the others. */
    mute: () => ip('-n', name, 'route', 'add', 'blackhole', `${host}/32`),
    unmute: () => ip('-n', name, 'route', 'del', 'blackhole', `${host}/32`),
  }
}
