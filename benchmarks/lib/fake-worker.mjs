// A worker whose engine computes nothing: each step takes so many milliseconds, whatever is in it.
import { WorkerHost, RedisBus } from '../../packages/cluster/dist/index.js'
import {
  createEngine,
  LocalEngineClient,
  PluginRegistry,
  systemClock,
  systemRandom,
} from '../../packages/core/dist/index.js'
import { FakeBackend, firstComeFirstServed } from '../../packages/core/dist/testing/index.js'

const [url, id, slots, stepMs] = process.argv.slice(2)
const backend = new FakeBackend({
  clock: systemClock,
  stepMs: () => Number(stepMs),
  slots: Number(slots),
})
const engine = createEngine({ backend, policy: firstComeFirstServed, clock: systemClock })
const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
const bus = await RedisBus.connect({ url })
const about = { info: engine.info(), fingerprint: 'fake', host: 'here' }
await new WorkerHost({ id, bus, client, ...about }).start()
process.send('ready')
setInterval(() => {}, 60_000)
