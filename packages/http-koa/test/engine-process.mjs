// An engine on a fake backend in a process of its own: what `serve-process.test.ts` starts.
import { createEngine, PluginRegistry } from '@cllm/core'
import { hostEngine } from '@cllm/host'
import { FakeBackend, firstComeFirstServed as policy } from '@cllm/testing'

const registry = new PluginRegistry()
registry.registerPolicy({ name: 'run-all', doc: 'Runs all.', create: () => policy })
const backend = new FakeBackend({
  contextSize: 1_000_000,
  embeddingSize: 2,
  canInfill: true,
  adapters: true,
  details: { pooling: 'rank' },
  endProbability: 0,
})
hostEngine(createEngine({ backend, policy }), registry, {
  send: (message) => process.send?.(message),
  onMessage: (listener) => process.on('message', listener),
  onClose: (listener) => process.once('disconnect', () => listener('the parent is gone')),
})
