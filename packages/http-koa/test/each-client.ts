import { AsyncLocalStorage } from 'node:async_hooks'
import {
  createEngine,
  type EngineClient,
  type EngineParts,
  PluginRegistry,
  systemRandom,
} from '@cllm/core'
import {
  type FromEngine,
  hostEngine,
  LocalEngineClient,
  RemoteEngineClient,
  type ToEngine,
} from '@cllm/host'
import { jsonChannel } from '@cllm/testing'
import t, { type Test } from 'tap'

/** How a server reaches its engine: by calls, or by JSON over a channel as to a child process. */
const ways = ['by calls', 'over a channel'] as const

const wayOfTest = new AsyncLocalStorage<(typeof ways)[number]>()

/** A test with each way that a server reaches its engine: {@link engineClient} takes the test's. */
export function testEach(name: string, run: (t: Test) => Promise<void>): void {
  for (const way of ways) {
    void t.test(`${name}, ${way}`, async (t) => await wayOfTest.run(way, async () => await run(t)))
  }
}

/** The test's way, for the suite of protocols. */
export const clientKind = (): 'local' | 'remote' =>
  wayOfTest.getStore() === 'over a channel' ? 'remote' : 'local'

/** An engine in this process, reached as the test wants it. */
export async function engineClient(
  parts: EngineParts & { readonly registry?: PluginRegistry },
): Promise<EngineClient> {
  const { registry = new PluginRegistry() } = parts
  const engine = createEngine(parts)
  if (clientKind() === 'local') {
    return new LocalEngineClient(engine, registry, systemRandom)
  }
  const [here, there] = jsonChannel<ToEngine, FromEngine>()
  const client = new RemoteEngineClient(here, systemRandom)
  hostEngine(engine, registry, there)
  await client.ready()
  return client
}
