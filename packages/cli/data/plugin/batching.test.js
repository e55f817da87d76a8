import assert from 'node:assert/strict'
import { test } from 'node:test'
import { composePolicy } from '@cllm/core'
import { orders } from '@cllm/scheduler'
import { builtInMachines, simulateLoad } from '@cllm/simulation'
import { myPlugin } from './my-plugin.js'

void test('my-plugin: one prompt after the other', async () => {
  const fcfs = orders.find(({ name }) => name === 'fcfs')
  const requests = [0, 1, 2].map((index) => {
    const prompt = Array.from({ length: 20 }, () => index)
    return { id: `${index}`, arrival: 0, prompt, maxTokens: 4 }
  })
  const machine = { ...builtInMachines.values().next().value, stepMs: () => 10 }
  const sizes = { slots: 4, contextSize: 64, batchSize: 64 }
  const policy = () => composePolicy(myPlugin, fcfs, {})
  const { results } = await simulateLoad({ policy, machine, ...sizes, requests })
  const first = results.map(({ tokenTimes }) => tokenTimes[0])
  assert.equal(new Set(first).size, 3, 'no two prompts in one step')
})
