import { performance } from 'node:perf_hooks'
import {
  createEngine,
  LocalEngineClient,
  PluginRegistry,
  systemRandom,
  type Backend,
  type SchedulerPolicy,
} from '@cllm/core'

/**
 * Milliseconds that pass in the engine between two steps: what it is busy beyond the backend's steps,
 * with all slots decoding.
 */
export async function loopOverheadMs(backend: Backend, policy: SchedulerPolicy): Promise<number> {
  let stepMs = 0
  const timed = new Proxy(backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (name !== 'step') return value.bind(target)
      return async (batch: Parameters<Backend['step']>[0]) => {
        const began = performance.now()
        const result = await target.step(batch)
        stepMs += performance.now() - began
        return result
      }
    },
  })
  const engine = createEngine({ backend: timed, policy })
  const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
  const one = async (number: number) => {
    const prompt = { tokens: Array.from({ length: 8 }, (_, index) => 20 + number + index) }
    const sampling = { temperature: 0, ignoreEos: true }
    for await (const _ of client.submit({ prompt, maxTokens: 24, sampling, cache: false }));
  }
  await Promise.all(Array.from({ length: backend.limits.slots }, (_, number) => one(number)))
  const { busyMs, steps } = engine.statistics()
  await engine.close()
  return Math.max(0, (busyMs - stepMs) / steps)
}
