// A front without HTTP: it keeps so many streams going at the workers of a cluster, or at an engine of its own
// (`alone`), and says what each message and token took of this process's CPU.
import process from 'node:process'
import { ClusterFront, RedisBus } from '../../packages/cluster/dist/index.js'
import { fakeEngine } from './fake-engine.mjs'
import { pause } from './servers.mjs'

const [url, streams, stepMs, seconds] = process.argv.slice(2)
const counts = { messages: 0, tokens: 0 }

async function clusterClient() {
  const bus = await RedisBus.connect({ url })
  const listen = bus.listen.bind(bus)
  bus.listen = (mailbox, onMessage) =>
    listen(mailbox, (message) => {
      counts.messages++
      onMessage(message)
    })
  const front = new ClusterFront({ id: 'front', bus })
  await front.start()
  const client = front.client('fake')
  await client.ready()
  return client
}

const client =
  url === 'alone' ? fakeEngine(Number(streams), Number(stepMs)).client : await clusterClient()
const over = new AbortController()
const loop = async (_, index) => {
  while (!over.signal.aborted) {
    const asked = { prompt: { text: `story ${index}` }, maxTokens: 400 }
    for await (const { type } of client.submit(asked)) if (type === 'token') counts.tokens++
  }
}
const loops = Array.from({ length: Number(streams) }, loop)
const look = () => ({ ...counts, cpu: process.cpuUsage() })
await pause(2000)
process.send('started')
const before = look()
await pause(1000 * Number(seconds))
const after = look()
const { user, system } = process.cpuUsage(before.cpu)
process.send({
  micros: user + system,
  messages: after.messages - before.messages,
  tokens: after.tokens - before.tokens,
})
over.abort()
void Promise.all(loops)
process.disconnect()
process.exit()
