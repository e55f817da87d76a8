import { readFileSync } from 'node:fs'
import { LocalEngineClient, systemClock, systemRandom } from '@cllm/core'
import {
  createConformanceEngine,
  testChannel,
  testEngineClient,
  type TestMessage,
} from '@cllm/core/testing'
import {
  type ClusterBus,
  ClusterFront,
  Link,
  type LinkLetter,
  RedisBus,
  WorkerHost,
} from '@cllm/cluster'
import { FakeServer, RedisServer, whyNoRedis } from '@cllm/cluster/testing'
import t from 'tap'

type Connect = () => Promise<ClusterBus>

const page = readFileSync(new URL('../../../docs/cluster.md', import.meta.url), 'utf8')

let count = 0

/** Two ends of a link. */
async function channel(connect: Connect) {
  const id = `link-${++count}`
  const buses = [await connect(), await connect()] as const
  const ends = buses.map((bus, index) => {
    const link: Link<TestMessage, TestMessage> = new Link({
      id,
      clock: systemClock,
      times: { heartbeatMs: 1000, silenceMs: 10_000 },
      post: (letter) => bus.post(`${id}-${1 - index}`, letter),
      isReachable: () => bus.isReachable,
    })
    bus.listen(`${id}-${index}`, (letter) => link.receive(JSON.parse(letter) as LinkLetter))
    return link
  })
  const [one, other] = ends as [(typeof ends)[0], (typeof ends)[0]]
  return {
    ends: [one, other] as const,
    end: () => one.close('the test ends it'),
    dispose: async () => void (await Promise.all(buses.map(async (bus) => await bus.close()))),
  }
}

/** A front and one worker with the engine of the suite. */
async function client(connect: Connect) {
  const [there, here] = [await connect(), await connect()]
  const { engine, registry } = createConformanceEngine()
  const own = new LocalEngineClient(engine, registry, systemRandom)
  const worker = new WorkerHost({
    id: `worker-${++count}`,
    bus: there,
    client: own,
    info: engine.info(),
    fingerprint: 'one',
    host: 'here',
  })
  await worker.start()
  const front = new ClusterFront({ id: `front-${count}`, bus: here })
  await front.start()
  const remote = front.client(engine.info().model.id)
  await remote.ready()
  return {
    client: remote,
    dispose: async () => {
      await front.close()
      await worker.close()
      await own.close()
      await Promise.all([there.close(), here.close()])
    },
  }
}

// The clock's timers alone keep no process alive.
const alive = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(alive))

const memory = new FakeServer(systemClock)
const inMemory = async () => memory.connect()
await testChannel(t, 'a link in memory', async () => await channel(inMemory))
await testEngineClient(t, 'a cluster in memory', async () => await client(inMemory))

const missing = whyNoRedis()
t.test('over Redis', { skip: missing ?? false }, async (t) => {
  // The user of docs/cluster.md: it may use what a cluster uses, and nothing else.
  const [, rules = ''] = /^user cllm on (.*)$/m.exec(page) ?? []
  const server = await RedisServer.start('--user', 'cllm', 'on', ...rules.split(' '))
  t.teardown(async () => await server.kill())
  const connect = async () => await RedisBus.connect({ url: server.urlFor('cllm', 'PASSWORD') })
  await testChannel(t, 'a link over Redis', async () => await channel(connect))
  await testEngineClient(t, 'a cluster over Redis', async () => await client(connect))
})

t.test('a server that is not there is told', async (t) => {
  const url = 'redis://user:secret@127.0.0.1:1'
  await t.rejects(RedisBus.connect({ url }), {
    code: 'cluster_unavailable',
    message: /The cluster at redis:\/\/127.0.0.1:1 cannot be reached: .*ECONNREFUSED/,
  })
})
