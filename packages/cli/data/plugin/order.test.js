import assert from 'node:assert/strict'
import { test } from 'node:test'
import { composePolicy } from '@cllm/core'
import { batchings } from '@cllm/scheduler'
import { builtInMachines, simulateLoad } from '@cllm/simulation'
import { myPlugin } from './my-plugin.js'

void test('my-plugin: the fewest tokens asked for first', async () => {
  const chunked = batchings.find(({ name }) => name === 'chunked')
  const requests = [9, 7, 3, 5].map((maxTokens, index) => {
    const prompt = Array.from({ length: 20 }, () => index)
    return { id: `${maxTokens}`, arrival: index, prompt, maxTokens }
  })
  const machine = { ...builtInMachines.values().next().value, stepMs: () => 10 }
  const sizes = { slots: 1, contextSize: 64, batchSize: 64 }
  const policy = () => composePolicy(chunked, myPlugin, {})
  const { results } = await simulateLoad({ policy, machine, ...sizes, requests })
  const inTurn = results.toSorted((a, b) => a.tokenTimes[0] - b.tokenTimes[0])
  // The first to come finds a free slot.
  assert.deepEqual(
    inTurn.map(({ request }) => request.id),
    ['9', '3', '5', '7'],
  )
})
