// A worker whose engine computes nothing: each step takes so many milliseconds, whatever is in it.
import process from 'node:process'
import { WorkerHost, RedisBus } from '../../packages/cluster/dist/index.js'
import { fakeEngine } from './fake-engine.mjs'

const [url, id, slots, stepMs] = process.argv.slice(2)
const { engine, client } = fakeEngine(Number(slots), Number(stepMs))
const bus = await RedisBus.connect({ url })
const about = { info: engine.info(), fingerprint: 'fake', host: 'here' }
await new WorkerHost({ id, bus, client, ...about }).start()
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send({ micros: user + system })
})
process.on('disconnect', () => process.exit())
process.send('ready')
