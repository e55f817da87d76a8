import { performance } from 'node:perf_hooks'
import { workSampling } from '../../packages/bench/dist/index.js'

/** Does the work through an engine, in this process or another. */
export async function runClient(client, { outputTokens: maxTokens }, prompts) {
  const sampling = { ...workSampling, ignoreEos: true }
  return await timed(client, async () => {
    await Promise.all(
      prompts.map(async (tokens) => {
        let count = 0
        for await (const event of client.submit({ prompt: { tokens }, maxTokens, sampling })) {
          if (event.type === 'token') count++
        }
        if (count !== maxTokens) throw new Error(`expected ${maxTokens} tokens, got ${count}`)
      }),
    )
  })
}

/** Measures the wall time of an action, together with the engine's own timings. */
export async function timed(client, work) {
  const before = await client.statistics()
  const began = performance.now()
  await work()
  const wallMs = performance.now() - began
  const after = await client.statistics()
  return {
    wallMs,
    decodeMs: after.decodeMs - before.decodeMs,
    sampleMs: after.sampleMs - before.sampleMs,
    steps: after.steps - before.steps,
  }
}
