import { createPolicy } from '@cllm/scheduler'
import {
  builtInMachines,
  type MachineModel,
  promptIds,
  simulateLoad,
  toolOf,
} from '@cllm/simulation'
import t from 'tap'

t.test('a simulated model calls the tool that its prompt ends with', async (t) => {
  const call = { key: '', tokens: 1, call: 'Read' }
  const first = [{ key: 'task', tokens: 100 }, call]
  const second = [...first, call, { key: '', tokens: 9 }, { key: 'result', tokens: 50 }]
  const drawn: (string | undefined)[] = []
  const { results } = await simulateLoad({
    policy: () => createPolicy('adaptive+agents'),
    machine: builtInMachines.get('gpu-8b') as MachineModel,
    requests: [
      { id: 'first', arrival: 0, prompt: promptIds(first), maxTokens: 10 },
      { id: 'second', arrival: 10_000, prompt: promptIds(second), maxTokens: 3 },
    ],
    onToken: (_, token) => void drawn.push(toolOf(token)),
  })
  t.same(drawn, ['Read', ...Array.from({ length: 12 }, () => undefined)])
  t.equal(results[1]?.usage?.cachedTokens, 110, 'the next prompt goes on with what was said')
})
