import { defaultSampling, type Backend } from '@cllm/core'

/** Runs one small step, so that the first request does not pay for first touches of memory. */
export async function warmUp(backend: Backend): Promise<void> {
  if (backend.capabilities.generates === false) return
  const [token = 0] = backend.tokenizer.encode('Hello')
  const sampler = backend.createSampler({ ...defaultSampling, seed: 1 }, [token])
  await backend.step([{ slot: 0, position: 0, tokens: [token], outputs: [0], sampler }])
  sampler.dispose()
  backend.release(0)
}
