import { type EngineDirectory, systemRandom } from '@cllm/core'
import { type LoadedModel, LocalEngineClient, ModelPool } from '@cllm/host'
import { createConformanceEngine } from '@cllm/testing'

async function load(): Promise<LoadedModel> {
  const { engine, registry } = createConformanceEngine()
  const client = new LocalEngineClient(engine, registry, systemRandom)
  return { client, close: async () => await client.close() }
}

/** A pool of two models as somebody else sees it, for the conformance suites. */
export function wrappedPool(wrap: (directory: EngineDirectory) => EngineDirectory) {
  const pool = new ModelPool({ models: ['a', 'b'].map((name) => ({ name, load })) })
  const directory = wrap(pool)
  const dispose = async () => await pool.close()
  return { directory, dispose, client: directory.open('a') }
}
