import { createPolicy } from '@cllm/scheduler'
import type { Clock } from '@cllm/core'
import {
  builtInMachines,
  callToken,
  type MachineModel,
  promptIds,
  SimulatedBackend,
  simulateLoad,
} from '@cllm/simulation'
import t from 'tap'

const machine = builtInMachines.get('gpu-8b') as MachineModel

t.test('a simulated model calls the tool that its prompt ends with', async (t) => {
  const call = { key: '', tokens: 1, call: 'Read' }
  const first = [{ key: 'task', tokens: 100 }, call]
  const second = [...first, call, { key: '', tokens: 9 }, { key: 'result', tokens: 50 }]
  const drawn: number[] = []
  const { results } = await simulateLoad({
    policy: () => createPolicy('adaptive+agents'),
    machine,
    tools: ['Read'],
    requests: [
      { id: 'first', arrival: 0, prompt: promptIds(first), maxTokens: 10 },
      { id: 'second', arrival: 10_000, prompt: promptIds(second), maxTokens: 3 },
    ],
    onToken: (_, token) => void drawn.push(token),
  })
  t.same(drawn, [callToken('Read'), ...Array.from({ length: 12 }, () => 0)])
  t.equal(results[1]?.usage?.cachedTokens, 110, 'the next prompt goes on with what was said')
})

t.test('a simulated model knows the tools that it was told of, and no others', (t) => {
  const limits = { slots: 1, contextSize: 100, batchSize: 100, tools: ['Read', 'Bash'] }
  const backend = new SimulatedBackend({} as Clock, machine, limits)
  const prompt = ['Bash', 'Edit', 'Read'].map(callToken)
  t.equal(backend.tokenizer.decode([0, ...prompt]), 'BashRead')
  t.end()
})
