import { createPolicy, createRouter } from '@cllm/scheduler'
import { builtInMachines, type MachineModel, simulateLoad } from '@cllm/simulation'

/** Simulates two machines under a load with prefixes in common; returns all that came of it. */
export async function simulateSample(policy: string) {
  return await simulateLoad({
    policy: () => createPolicy(policy),
    machine: builtInMachines.get('two-cores') as MachineModel,
    machines: 2,
    router: () => createRouter('prefix-wait'),
    slots: 4,
    requests: Array.from({ length: 30 }, (_, index) => ({
      id: String(index),
      arrival: 40 * index,
      prompt: Array.from({ length: 150 }, (_, at) => (at < 100 ? 1 + (index % 3) : 10 + index)),
      maxTokens: 5 + (index % 7),
      tenant: `tenant ${index % 2}`,
      ...(index % 11 === 5 ? { cancelAfterMs: 300 } : {}),
    })),
  })
}
