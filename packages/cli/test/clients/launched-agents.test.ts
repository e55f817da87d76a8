import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import type { ProgramReport } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import t, { type Test } from 'tap'
import { bin, killAfter } from '../start-process.js'
import { model, serveStories } from './serve-stories.js'

/** An agent that asks three times, with a tool between two calls that runs until a line comes. */
const scripted = `#!/usr/bin/env node
const { createInterface } = require('node:readline')
const { env } = process
const config = env.OPENCODE_CONFIG_CONTENT && JSON.parse(env.OPENCODE_CONFIG_CONTENT).provider.cllm.options
const path = config ? config.baseURL + '/chat/completions' : env.ANTHROPIC_BASE_URL + '/v1/messages'
const own = config ? { 'x-session-affinity': 'opencode' } : { 'x-claude-code-session-id': 'claude' }
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const task = Object.values(own)[0] + ' fixes code and calls tools. '
const messages = [{ role: 'user', content: task.repeat(8) }]
void (async () => {
  for (let turn = 0; turn < 3; turn++) {
    const body = JSON.stringify({ model: 'stories', messages, max_tokens: 12 })
    const headers = { 'content-type': 'application/json', ...own }
    const answer = await (await fetch(path, { method: 'POST', headers, body })).json()
    const content = config ? answer.choices[0].message.content : answer.content[0]?.text ?? ''
    messages.push({ role: 'assistant', content }, { role: 'user', content: 'The tool said: all is well.' })
    console.log('tool')
    await lines.next()
  }
  process.exit(0)
})()
`

/** Starts an agent by `cllm launch`; each call of the result lets it go on to its next tool, or its end. */
async function launch(t: Test, name: string, url: string, folder: string) {
  const file = join(folder, 'bin', name)
  await writeFile(file, scripted)
  await chmod(file, 0o755)
  const PATH = `${folder}/bin:${process.env['PATH']}`
  const child = spawn(process.execPath, [bin, 'launch', name], {
    env: plainEnvironment(process.env, { CLLM_PORT: new URL(url).port, PATH }),
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  })
  killAfter(t, child)
  const errors = text(child.stderr)
  const said = createInterface(child.stdout)[Symbol.asyncIterator]()
  const tool = async (): Promise<void> => {
    if ((await said.next()).value !== 'tool') throw new Error(await errors)
  }
  await tool()
  const goOn = () => child.stdin.write('\n')
  return {
    next: async () => (goOn(), await tool()),
    end: async () => (goOn(), await once(child, 'exit')) as unknown[],
  }
}

t.test('two agents side by side are two programs, whose slots wait for their tools', async (t) => {
  const long = ['--ctx-size', '1024', '--rope-freq-scale', '0.25']
  const { url } = await serveStories(t, '--order', 'agents', ...long)
  const programs = async (): Promise<Record<string, ProgramReport>> => {
    const answer = (await (await fetch(`${url}/admin/programs?model=${model}`)).json()) as {
      readonly data: { readonly programs: readonly ProgramReport[] }
    }
    return Object.fromEntries(answer.data.programs.map((one) => [one.id, one]))
  }
  const names = ['claude', 'opencode']
  const folder = t.testdir({ bin: { 'package.json': '{}' } })
  const agents = await Promise.all(names.map(async (name) => await launch(t, name, url, folder)))
  for (const calls of [1, 2, 3]) {
    const seen = await programs()
    t.same(Object.keys(seen).sort(), names)
    for (const { id, keptTokens, promptTokens, generatedTokens, ...more } of Object.values(seen)) {
      t.match(more, { calls, open: 0, pauses: calls - 1, pausesSinceMs: Number }, id)
      t.ok(keptTokens > 80, `a slot keeps ${keptTokens} tokens of ${id}`)
      t.ok(keptTokens <= promptTokens + generatedTokens)
      if (calls > 1) t.ok(more.cachedTokens > 80, `${more.cachedTokens} were there already`)
    }
    if (calls < 3) await Promise.all(agents.map(async ({ next }) => await next()))
  }
  for (const { end } of agents) t.same(await end(), [0, null])
  for (const { id, pausedMs } of Object.values(await programs())) t.ok(pausedMs > 0, id)
})
