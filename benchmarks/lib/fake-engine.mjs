import {
  createEngine,
  PluginRegistry,
  systemClock,
  systemRandom,
} from '../../packages/core/dist/index.js'
import { LocalEngineClient } from '../../packages/host/dist/index.js'
import { FakeBackend, firstComeFirstServed } from '../../packages/testing/dist/index.js'

/** An engine that computes nothing: each step takes so many milliseconds, whatever is in it. */
export function fakeEngine(slots, stepMs) {
  const backend = new FakeBackend({ clock: systemClock, stepMs: () => stepMs, slots })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock: systemClock })
  return { engine, client: new LocalEngineClient(engine, new PluginRegistry(), systemRandom) }
}
