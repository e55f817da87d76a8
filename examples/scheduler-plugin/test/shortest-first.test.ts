import { createEngine, PluginRegistry, systemRandom } from '@cllm/core'
import { LocalEngineClient, loadPlugins } from '@cllm/host'
import { FakeBackend, testPolicy } from '@cllm/testing'
import { createPolicy } from '@cllm/scheduler'
import t from 'tap'
import { fileURLToPath } from 'node:url'

const from = fileURLToPath(new URL('..', import.meta.url))
const registry = new PluginRegistry()
await loadPlugins([{ use: './shortest-first.js', options: {} }], { from, registry })

/** The order in which requests that arrive together end, the longest prompt first in line. */
async function order(policy: Parameters<typeof createEngine>[0]['policy']): Promise<string[]> {
  const backend = new FakeBackend({ slots: 1 })
  const client = new LocalEngineClient(createEngine({ backend, policy }), registry, systemRandom)
  const ended: string[] = []
  const one = async (id: string, words: number): Promise<void> => {
    const prompt = { text: 'word '.repeat(words) }
    for await (const event of client.submit({ id, prompt, maxTokens: 3 })) {
      if (event.type === 'end') ended.push(id)
    }
  }
  await Promise.all([one('long', 30), one('middle', 20), one('short', 10)])
  await client.close()
  return ended
}

t.test('the plugin changes the order of service', async (t) => {
  t.same(await order(createPolicy('continuous+fcfs')), ['long', 'middle', 'short'])
  t.same(await order(registry.createPolicy('shortest-first', {})), ['short', 'middle', 'long'])
})

t.test('its options are checked', async (t) => {
  t.throws(() => registry.createPolicy('shortest-first', { budget: 'much' }), /budget/)
})

t.test('it is a policy', (t) => {
  return testPolicy(t, () => registry.createPolicy('shortest-first', { budget: 64 }))
})
