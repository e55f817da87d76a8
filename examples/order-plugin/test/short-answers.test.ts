import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { loadPlugins, registerPlugin } from '@cllm/host'
import { PluginRegistry } from '@cllm/core'
import { testOrder } from '@cllm/testing'
import { batchings, overtakingBound, schedulerPlugin } from '@cllm/scheduler'
import { builtInMachines, simulateLoad } from '@cllm/simulation'
import { resolveModel } from 'cllm'
import t from 'tap'
import { listening, start } from '../../../packages/cli/test/start-process.js'
import { shortAnswers } from '../short-answers.js'

const file = fileURLToPath(new URL('../short-answers.js', import.meta.url))
const from = fileURLToPath(new URL('..', import.meta.url))
const registry = new PluginRegistry()
await registerPlugin(schedulerPlugin, registry)
await loadPlugins([{ use: './short-answers.js' }], { from, registry })

t.test('simulated with every batching: the fewest tokens asked for first', async (t) => {
  const requests = [9, 7, 3, 5].map((maxTokens, index) => {
    const prompt = Array.from({ length: 20 }, () => index)
    return { id: `${maxTokens}`, arrival: index, prompt, maxTokens }
  })
  for (const { name } of batchings) {
    const { results } = await simulateLoad({
      policy: () => registry.createPolicy(`${name}+short-answers`),
      machine: { ...[...builtInMachines.values()][0]!, stepMs: () => 10 },
      slots: 1,
      contextSize: 64,
      batchSize: 64,
      requests,
    })
    const first = ({ tokenTimes }: (typeof results)[number]) => tokenTimes[0] ?? NaN
    const inTurn = results.toSorted((a, b) => first(a) - first(b)).map(({ request }) => request.id)
    // The first to come finds a free slot, unless the batching waits for others.
    const others = inTurn.filter((id) => id !== '9')
    t.same(others, ['3', '5', '7'], name)
  }
})

t.test('it is an order', (t) => {
  const claims = {
    runs: 20,
    options: { patience: 50 },
    maxOvertaking: (ahead: number, limits: Parameters<typeof overtakingBound>[1]) =>
      overtakingBound(ahead, limits, 50),
  }
  return testOrder(t, shortAnswers, batchings, claims)
})

t.test('cllm serve takes it by name, and offers it with every batching', async (t) => {
  const { path } = await resolveModel('stories15m')
  const args = ['serve', '--model', path, '--port', '0', '--threads', '1', '--gpu', 'off']
  args.push('--plugin', file, '--policy', 'adaptive+short-answers', '--log-level', 'warn')
  const child = start(t, args)
  const { url } = await listening(t, child)
  const send = async (path: string, method: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
    return (await response.json()) as { success: boolean; error?: string; data?: object }
  }
  const once4 = { prompt: 'Once upon a time', max_tokens: 4 }
  t.match(await send('/generate', 'POST', once4), { success: true })
  const { data } = (await (await fetch(`${url}/admin/scheduler`)).json()) as {
    data: { policy: string; available: { name: string; options: object }[] }
  }
  t.equal(data.policy, 'adaptive+short-answers')
  for (const { name } of batchings) {
    const policy = `${name}+short-answers`
    const offered = data.available.find((one) => one.name === policy)
    t.match(offered, { options: { patience: 16_384 } }, policy)
    t.match(await send('/admin/scheduler', 'PUT', { policy }), { success: true, data: { policy } })
  }
  const wrong = await send('/admin/scheduler', 'PUT', { policy: 'chunked+short-answer' })
  t.match(wrong.error, /did you mean "chunked\+short-answers"/)
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})

t.test('the documentation shows this file', async (t) => {
  const page = readFileSync(new URL('../../../docs/writing-a-plugin.md', import.meta.url), 'utf8')
  t.ok(page.includes(readFileSync(file, 'utf8').replace('// @ts-check\n', '')))
})
