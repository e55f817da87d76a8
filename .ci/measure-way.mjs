// How much code a request enters: the files and functions of ours that run for one chat answer of one token, in the
// server and in the engine's process, once both are warm. What also runs while nothing is asked is left out.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const processes = 2
const hook = new URL('count-calls.mjs', import.meta.url).href

export async function measureWay(root) {
  const folder = await mkdtemp(join(tmpdir(), 'cllm-way-'))
  const model = ['--model', 'stories15m', '--speculative', 'off']
  const server = spawn(
    process.execPath,
    [join(root, 'packages/cli/bin/cllm.js'), 'serve', '--port', '0', ...model],
    {
      env: { ...process.env, NODE_OPTIONS: `--import=${hook}`, COUNT_CALLS_FOLDER: folder },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true, // a process group, which the signal goes to
    },
  )
  try {
    const url = await Promise.race([listening(server), ended(server)])
    for (let warm = 0; warm < 6; warm++) await chat(url)
    await calls(server, folder, 0)
    await sleep(3000)
    const idle = await calls(server, folder, 1)
    await chat(url)
    await sleep(200) // for what follows the answer
    const asked = await calls(server, folder, 2)
    const ours = asked.filter(({ file }) => !idle.some((other) => other.file === file))
    return {
      'files that a chat enters': ours.length,
      'functions that a chat enters': ours.reduce((sum, { functions }) => sum + functions, 0),
      entered: ours,
    }
  } finally {
    server.kill('SIGTERM')
    await once(server, 'exit')
    await rm(folder, { recursive: true })
  }
}

async function listening({ stdout }) {
  for await (const line of createInterface(stdout)) {
    const url = /^listening on (\S+)/.exec(line)?.[1]
    if (url !== undefined) {
      stdout.resume()
      return url
    }
  }
}

async function ended(server) {
  const [code] = await once(server, 'exit')
  throw new Error(`the server ended with ${code}`)
}

async function chat(url) {
  const messages = [{ role: 'user', content: `Hello ${Math.random()}` }]
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages, max_tokens: 1 }),
  })
  if (!response.ok) throw new Error(await response.text())
  await response.text()
}

/** What each process ran since the last time; `round` counts the times. */
async function calls(server, folder, round) {
  process.kill(-server.pid, 'SIGUSR2')
  for (;;) {
    const files = (await readdir(folder)).filter((name) => name.startsWith(`${round}-`))
    if (files.length === processes) {
      const texts = await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')))
      return texts.flatMap((text) => JSON.parse(text))
    }
    await sleep(50)
  }
}
