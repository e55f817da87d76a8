import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import {
  createEngine,
  type FoundState,
  PluginRegistry,
  silentLogger,
  SimulatedClock,
  systemClock,
  systemRandom,
} from '@cllm/core'
import { LocalEngineClient, StateFolder } from '@cllm/host'
import {
  createConformanceEngine,
  FakeBackend,
  type FakeBackendOptions,
  firstComeFirstServed,
  testEngineClient,
} from '@cllm/testing'
import {
  type ClusterBus,
  ClusterFront,
  JobQueue,
  joinLocalWorkers,
  Link,
  type Envelope,
  readEnvelope,
  RedisBus,
  RedisStates,
  SharedBlobs,
  sharedCounter,
  SharedRecords,
  SharedResults,
  SharedText,
  WorkerHost,
} from '@cllm/cluster'
import { FakeServer } from './fake-bus.js'
import { freePort } from './free-port.js'
import { RedisServer, whyNoRedis } from './redis-server.js'
import { StoppableClock } from './stoppable-clock.js'
import { type Keeping, testSharedStates } from './shared-states.js'
import { TcpRelay } from './tcp-relay.js'
import { testChannel, type TestMessage } from './test-channel.js'
import t, { type Test } from 'tap'
import { connectTo, refusalOf } from '../src/bus/redis-client.js'

type Connect = () => Promise<ClusterBus>

const page = readFileSync(new URL('../../../docs/cluster.md', import.meta.url), 'utf8')
const users = readFileSync(new URL('../../../deploy/redis/users.acl', import.meta.url), 'utf8')

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
      send: (envelope) => bus.send(`${id}-${1 - index}`, envelope),
      isReachable: () => bus.isReachable,
    })
    bus.listen(`${id}-${index}`, (envelope) =>
      link.receive(readEnvelope(envelope) as Envelope<TestMessage>),
    )
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

/** An engine behind the router within a process; the suite knows the slots of one. */
async function joined() {
  const workers = ['one'].map((id) => {
    const { engine, registry } = createConformanceEngine()
    const client = new LocalEngineClient(engine, registry, systemRandom)
    const forGood = new Promise<string>(() => {})
    return { id, client, info: engine.info(), gone: forGood, onUp: () => {} }
  })
  const { client } = joinLocalWorkers(workers)
  await client.ready()
  return {
    client,
    dispose: async () =>
      void (await Promise.all(workers.map(async (one) => await one.client.close()))),
  }
}

// The clock's timers alone keep no process alive.
const alive = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(alive))

const memory = new FakeServer(systemClock)
const inMemory = async () => memory.connect()
await testChannel(t, 'a link in memory', async () => await channel(inMemory))
await testEngineClient(t, 'a cluster in memory', async () => await client(inMemory))
await testEngineClient(t, 'engines of one process', joined)

// Some of these wait for a silence: others run meanwhile, each with a server of its own.
t.jobs = 2
t.test('what several engines of one process hold is shown together', async (t) => {
  const workers = ['one', 'two'].map((id) => {
    const backend = new FakeBackend({ kvTokens: 600 })
    const options = { cacheRamBytes: 1e6 }
    const engine = createEngine({ backend, policy: firstComeFirstServed, options })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    t.teardown(() => client.close())
    const forGood = new Promise<string>(() => {})
    return { id, client, info: engine.info(), gone: forGood, onUp: () => {} }
  })
  for (const { client } of workers) {
    const tokens = Array.from({ length: 90 }, (_, index) => 4 + index)
    for await (const _ of client.submit({ prompt: { tokens }, maxTokens: 1, pin: true })) continue
  }
  const { client } = joinLocalWorkers(workers)
  await client.ready()
  t.match((await client.info()).limits, { slots: 8, kvTokens: 1200, contextSize: 256 })
  t.match(await client.cache('list'), [{ pinned: true }, { pinned: true }])
  const before = await client.activity()
  t.equal(before.slots.length, 8)
  const streams = [1, 2].map(async (seed) => {
    const asked = { prompt: { tokens: [4, 5, seed] }, maxTokens: 20, sampling: { ignoreEos: true } }
    let last: string | undefined
    for await (const event of client.submit(asked)) if (event.type === 'start') last = event.id
    return last
  })
  const ids = await Promise.all(streams)
  for (const id of ids) {
    t.match(await client.explain(id!), { id, worker: /^(one|two)$/, moves: 0 }, 'under its own id')
  }
  await t.rejects(client.explain('nobody'), { code: 'request_not_found' })
  const after = await client.activity(before.cursor)
  const [frame] = after.frames
  t.equal(after.frames.length, 1, 'what all did is one frame')
  t.same(new Set(frame?.ended.map(({ id }) => id)), new Set(ids))
  t.equal(frame?.steps.decodeTokens, 38, 'each engine is asked since its own last look')
  t.same(new Set(frame?.spans.map(({ slot = 0 }) => slot < 4)), new Set([true, false]))
  t.same((await client.activity(after.cursor)).frames, [])
  t.ok((await client.activity(999)).frames.length >= 0, 'a look that nobody knows begins anew')
  t.equal((await client.cache('drop')).length, 2)
  t.same(await client.cache('list'), [])
})

const missing = whyNoRedis()
t.test('over Redis', { skip: missing ?? false }, async (t) => {
  // The user of docs/cluster.md: it may use what a cluster uses, and nothing else.
  const [, rules = ''] = /^user cllm on (.*)$/m.exec(page) ?? []
  const server = await RedisServer.start('--user', 'cllm', 'on', ...rules.split(' '))
  t.teardown(async () => await server.kill())
  const connect = async () => await RedisBus.connect({ url: server.urlFor('cllm', 'PASSWORD') })
  await testChannel(t, 'a link over Redis', async () => await channel(connect))
  await testEngineClient(t, 'a cluster over Redis', async () => await client(connect))
  const bus = await connect()
  await testShared(t, bus)
  await bus.close()

  await t.test(
    'an envelope takes one command to send, and what was read leaves the server',
    async (t) => {
      const [there, here] = [await connect(), await connect()]
      const calls = async (name: string) => {
        const text = (await observer.sendCommand(['INFO', 'commandstats'])) as unknown as string
        return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(text)?.[1] ?? 0)
      }
      const observer = await connectTo({ url: server.url }).connect()
      const got: string[] = []
      let heard = () => {}
      here.listen('reader', (envelope) => {
        got.push(envelope)
        heard()
      })
      const before = [await calls('xadd'), await calls('pexpire')] as const
      for (let index = 0; index < 40; index++) {
        const next = new Promise<void>((resolve) => (heard = resolve))
        there.send('reader', String(index))
        await next
      }
      const all = new Promise<void>((resolve) => {
        heard = () => got.length === 140 && resolve()
      })
      for (let index = 40; index < 140; index++) there.send('reader', String(index))
      await all
      t.same(
        got,
        Array.from({ length: 140 }, (_, index) => String(index)),
      )
      t.equal((await calls('xadd')) - before[0], 41, 'those of one turn together')
      t.ok((await calls('pexpire')) - before[1] <= 2)
      while (Number(await observer.sendCommand(['XLEN', 'cllm:reader'])) > 0) continue
      t.ok(Number(await observer.sendCommand(['PTTL', 'cllm:reader'])) > 30_000, 'it ends some day')
      await here.withdraw('nobody')
      await here.close()
      there.send('reader', 'late')
      while (Number(await observer.sendCommand(['XLEN', 'cllm:reader'])) === 0) continue
      t.ok(
        Number(await observer.sendCommand(['PTTL', 'cllm:reader'])) > 30_000,
        'that of a dead one, too',
      )
      await there.close()
      observer.destroy()
    },
  )

  await t.test('a worker whose connection ends is lost without any silence', async (t) => {
    const [there, here] = [await connect(), await connect()]
    const { engine, registry } = createConformanceEngine()
    const own = new LocalEngineClient(engine, registry, systemRandom)
    const about = { info: engine.info(), fingerprint: 'one', host: 'here' }
    await new WorkerHost({ id: 'mortal', bus: there, client: own, ...about }).start()
    const present = here.present.bind(here)
    const seen = new Promise<void>((resolve) => {
      here.present = async (ids) => {
        const all = await present(ids)
        if (all?.has('mortal')) resolve()
        return all
      }
    })
    const front = new ClusterFront({ id: 'patient', bus: here, times: { silenceMs: 600_000 } })
    await front.start()
    const remote = front.client(engine.info().model.id)
    await remote.ready()
    const { members } = remote.workers
    const [{ link }] = members as [(typeof members)[0]]
    const lost = new Promise<string>((resolve) => link.onClose(resolve))
    await seen
    await there.close()
    t.equal(await lost, 'its connection has ended')
    await front.close()
    await here.close()
    await own.close()
  })
})

t.test('what fronts share over Redis', { skip: missing ?? false }, async (t) => {
  const server = await RedisServer.start()
  t.teardown(async () => await server.kill())
  const buses = await Promise.all([1, 2, 3].map(() => RedisBus.connect({ url: server.url })))
  t.teardown(async () => void (await Promise.all(buses.map((bus) => bus.close()))))

  await t.test('a text is the same for all, and outlives the server', async (t) => {
    const [one, other] = buses.map((bus) => new SharedText(bus, 'keys')) as [SharedText, SharedText]
    const seen: (string | null)[] = []
    const seenWith = async (length: number) => {
      while (seen.at(-1)?.length !== length) await new Promise(setImmediate)
    }
    const close = await other.watch(systemClock, silentLogger, (text) => void seen.push(text))
    await one.update((text) => `${text ?? ''}a`)
    await seenWith(1)
    await Promise.all(['b', 'c'].map(async (letter) => await one.update((text) => text + letter)))
    await seenWith(3)
    t.equal(seen[0], null)
    t.match(seen.at(-1), /^a(bc|cb)$/)
    await server.kill()
    await server.restart()
    while ((await one.read().catch(() => null)) === null) await pause(10)
    t.equal(await one.read(), seen.at(-1), 'it is written again')

    const [key, version] = ['cllm:keys', 'cllm:keys:version'] as const
    const was = await ask(server, 'GET', key)
    const [, bus] = buses as [RedisBus, RedisBus]
    const command = bus.command.bind(bus)
    bus.command = async (...words) => {
      const answer = await command(...words)
      // Right behind the read of a version.
      if (answer === '3-9') await one.update(() => 'newer')
      return answer
    }
    await ask(server, 'SET', version, '3-9')
    await seenWith(5)
    bus.command = command
    // As a replica has it that lagged behind.
    await ask(server, 'MSET', key, was, version, '3-9')
    while ((await one.read()) !== 'newer') await new Promise(setImmediate)
    t.equal(seen.at(-1), 'newer', 'what was revoked stays so')
    await one.update(() => 'latest')
    await seenWith(6)
    close()
  })

  await t.test('counters are the same for all, and go on alone without the server', async (t) => {
    const clock = new SimulatedClock()
    const connect = async () => await RedisBus.connect({ url: server.url, clock })
    const buses = await Promise.all([connect(), connect(), connect()])
    t.teardown(async () => void (await Promise.all(buses.map((bus) => bus.close()))))
    const counters = buses.map((bus) => sharedCounter(bus, 'requests', 60))
    const asked = Array.from({ length: 900 }, (_, index) => counters[index % 3]!.penalty('k', 1))
    const used = (await Promise.all(asked)).map(({ consumedPoints }) => consumedPoints)
    t.same(
      used.toSorted((one, other) => one - other),
      Array.from({ length: 900 }, (_, index) => index + 1),
      'each request has a number of its own',
    )
    t.match(await counters[0]!.get('k'), { consumedPoints: 900 })
    t.equal(await counters[0]!.get('other'), null)
    process.kill(server.pid, 'SIGSTOP')
    const silent = counters[0]!.penalty('k', 1)
    clock.advance(1000)
    t.equal((await silent).consumedPoints, 1, 'nobody waits longer for a silent server')
    await server.kill()
    t.equal((await counters[1]!.penalty('k', 1)).consumedPoints, 1)
  })
})

t.test('who signed a certificate is not asked where its time is over', (t) => {
  const expired = 'certificate has expired'
  t.equal(refusalOf(new Error(expired)), expired)
  t.match(refusalOf(new Error('self-signed certificate')), /--cluster-ca must name/)
  t.end()
})

/** A key and a certificate for this machine; undefined without OpenSSL. */
function selfSigned(folder: string) {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const about = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '1']
  const kind = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
  ]
  const { status } = spawnSync('openssl', [...kind, '-keyout', key, '-out', cert, ...about])
  return status === 0 ? { cert, key } : undefined
}

async function groups<T>(of: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const one of of) all.push(one)
  return all
}

t.test('states in a folder', async (t) => {
  const folder = t.testdir({})
  await testSharedStates(t, ({ clock, ...how }) => {
    return new StateFolder({ folder, ...how, isKept: true }, clock, silentLogger)
  })
})

/** What fronts keep on the server for each other, as this user of it. */
async function testShared(t: Test, bus: RedisBus): Promise<void> {
  await t.test('states on the server', async (t) => {
    const statesOf = ({ clock, ...how }: Keeping, logger = silentLogger) => {
      const command: RedisBus['command'] = async (...words) => {
        // As by a server whose clock is the test's.
        const time = `{${Math.floor(clock.wall() / 1000)}, ${1000 * (clock.wall() % 1000)}}`
        const at = (word: string | Buffer) =>
          typeof word === 'string' ? word.replace("redis.call('time')", time) : word
        return await bus.command(...words.map(at))
      }
      const own = { store: bus.store, command, bytes: bus.bytes.bind(bus) } as unknown as RedisBus
      return new RedisStates(own, 'responses', how, logger)
    }
    await testSharedStates(t, statesOf)
    const said: string[] = []
    const warn = (_: object, text: string): void => void said.push(text)
    const keeping = { limitBytes: 1e6, maxAgeMs: 600_000, key: 'secret', clock: systemClock }
    const states = statesOf(keeping, { ...silentLogger, warn })
    const head = { key: 'of a test', scope: 'a', partial: false, tokens: [] }
    const write = async (letter: string, instead?: FoundState) =>
      (await states.write(head, Buffer.from(letter), instead)) !== undefined
    t.ok(await write('a'))
    const found = await states.find(head)
    t.same([await write('b', found), await write('c', found)], [true, false], 'it was changed')
    t.same((await states.find(head))?.data, Buffer.from('b'))
    t.same(said, [])
    const key = `${bus.store.prefix}responses:${found?.name}`
    t.notMatch(String(await bus.bytes('HGET', key, 'data')), 'of a test', 'it is encrypted')
    await bus.command('HSET', key, 'data', 'CLLMSE01 and no more')
    t.equal(await states.find(head), undefined)
    t.same(said, ['what the cluster has kept is ignored'])
    t.ok(Number(await bus.command('PTTL', key)) > 500_000, 'it ends without any front')
    await bus.command('DEL', key)
    t.ok(await write('d'), 'one whose time ran out takes its bytes with it')
    const sizes = (await bus.command('HVALS', `${bus.store.prefix}responses:bytes`)) as string[]
    const [most = 0, ...others] = sizes.map(Number).sort((one, next) => next - one)
    t.equal(
      others.reduce((sum, size) => sum + size),
      most,
      'all of them are what is there',
    )
  })
  await t.test('a front whose clock is ahead by years removes no states', async (t) => {
    const clock = { ...systemClock, wall: () => 1e13 }
    const ahead = { store: { ...bus.store, clock }, command: bus.command.bind(bus) } as RedisBus
    const keeping = { limitBytes: 1e6, maxAgeMs: 600_000 }
    const head = (scope: string) => ({ key: 'of a test', scope, partial: false, tokens: [] })
    const states = new RedisStates(bus, 'responses', keeping, silentLogger)
    await states.write(head('here'), Buffer.from('a'))
    await new RedisStates(ahead, 'responses', keeping, silentLogger).write(
      head('there'),
      Buffer.from('b'),
    )
    t.same((await states.find(head('here')))?.data, Buffer.from('a'))
  })
  await new SharedText(bus, 'keys').update(() => 'secret')
  t.match(await sharedCounter(bus, 'requests', 60).penalty('testShared', 1), { consumedPoints: 1 })

  const blobs = new SharedBlobs(bus, 'batch:content')
  const bytes = Uint8Array.from({ length: 600_001 }, (_, index) => index % 256)
  t.ok(await blobs.write('blob', [bytes.subarray(0, 5), bytes.subarray(5)]))
  const pieces: Buffer[] = []
  for await (const piece of blobs.read('blob')) pieces.push(piece)
  t.ok(Buffer.concat(pieces).equals(bytes))
  t.equal(await blobs.size('blob'), bytes.length)
  const files = new SharedRecords<{ readonly name: string }>(bus, 'batch:uploads')
  const dying: RedisBus['command'] = async (...words) => {
    t.notOk(await files.get('upload'), 'until its end nothing is known of it')
    if (words[0] === 'EVAL') throw new Error('this front dies')
    return await bus.command(...words)
  }
  const left = new SharedBlobs({ store: bus.store, command: dying } as RedisBus, 'batch:content')
  const upload = { record: files.toWrite('upload', { name: 'a' }) }
  await t.rejects(left.write('upload', [bytes], upload), /dies/)
  t.equal(await blobs.size('upload'), 0)
  t.ok(await blobs.write('upload', [bytes], upload))
  t.same([await files.get('upload'), await blobs.size('upload')], [{ name: 'a' }, bytes.length])
  const command: RedisBus['command'] = async (...words) => {
    // As a replica that lagged behind the server before it.
    if (words[0] === 'APPEND') return await bus.command('SET', words[1]!, 'half')
    return await bus.command(...words)
  }
  const torn = new SharedBlobs({ store: bus.store, command } as RedisBus, 'batch:content')
  await t.rejects(torn.write('torn', [Buffer.from('half and half')]), {
    code: 'cluster_unavailable',
    message: /expected 13 bytes to be there, instead got 4/,
  })
  t.equal(await blobs.size('torn'), 0, 'whole, or not at all')

  const results = new SharedResults(bus, 'batch:results')
  t.equal(await results.add('one', 1, 'completed', 'early'), 'closed')
  t.equal(
    await blobs.write('blob', [], { ifExists: results.keyOf('one') }),
    false,
    'nobody wants it',
  )
  await results.open('one', 2)
  await results.open('one', 3)
  t.equal(await results.add('one', 1, 'completed', 'first'), 'open')
  t.equal(await results.add('one', 1, 'failed', 'second'), 'open', 'once')
  t.equal(await results.state('one'), 'open')
  t.equal(await results.add('one', 7, 'failed', 'x'), 'whole')
  t.same(await results.counts('one'), { total: 2, completed: 1, failed: 1 })
  t.same(await groups(results.read('one', [1, 2, 7])), [['first', undefined, 'x']])
  t.same([await results.has('one', 7), await results.has('one', 2)], [true, false])
  const long = 'y'.repeat(600_000)
  for (const number of [2, 3, 4]) await results.add('one', number, 'completed', long)
  const read = await groups(results.read('one', [1, 2, 3, 7, 4]))
  t.same(
    read.map((texts) => texts.length),
    [2, 2, 1],
    'a megabyte at a time',
  )
  t.same(await groups(results.read('one', [])), [])
  await results.remove('one')
  t.equal(await results.counts('one'), undefined)

  const records = new SharedRecords<{ count: number }>(bus, 'batch:files')
  await records.put('a', { count: 0 })
  const add = async () => await records.update('a', ({ count }) => ({ count: count + 1 }))
  await Promise.all(Array.from({ length: 20 }, add))
  t.same(await records.list(), [{ count: 20 }], 'no change is lost')
  for (const [id, text] of ['{', 'null', '{}'].entries())
    await bus.command('HSET', 'cllm:batch:files', `damaged-${id}`, text)
  const checked = new SharedRecords<{ count: number }>(
    bus,
    'batch:files',
    (record) => record?.count !== undefined,
  )
  const damaged: Error[] = []
  t.same(await checked.list((error) => damaged.push(error)), [{ count: 20 }], 'others stay')
  t.equal(damaged.length, 3)
  t.same(await checked.list(), [{ count: 20 }])
  await t.rejects(checked.get('damaged-2'), /is no record/)
  await records.remove('a')
  t.equal(await records.update('a', (record) => record), undefined)
  t.equal(await records.get('a'), undefined)

  const queue = await JobQueue.open<number>(bus, 'batch', silentLogger)
  await queue.add([{ id: 'first', data: 0, delayMs: 60_000 }])
  await bus.command('SCRIPT', 'FLUSH') // as each restart does
  const seen: number[] = []
  await queue.add([2, 1, 1].map((data) => ({ id: `job-${data}`, data })))
  await queue.add([])
  await queue.add([{ id: 'late', data: 9, delayMs: 60_000 }])
  for (const id of ['first', 'late']) await queue.remove(id)
  // As on a machine that slept since this process began.
  const hourLater = Date.now.bind(Date)
  Date.now = () => hourLater() + 3_600_000
  t.teardown(() => (Date.now = hourLater))
  let putOffAt = Infinity
  await new Promise<void>((resolve) => {
    void queue.process(1, async ({ id, data }, signal) => {
      t.equal(id, `job-${data}`)
      t.equal(signal.aborted, false)
      seen.push(data)
      if (seen.length === 1) throw new Error('the first one fails once')
      if (seen.length === 2) {
        putOffAt = performance.now()
        return 200
      }
      if (data === seen[1] && seen.length > 2)
        t.ok(performance.now() - putOffAt > 150, 'as long as it said')
      if (seen.length === 4) resolve()
      return undefined
    })
  })
  t.same(seen.slice(0, 2), [2, 1])
  t.same(new Set(seen.slice(2)), new Set([1, 2]), 'what fails is done again, and what is put off')
  await queue.close()
  await t.rejects(queue.add([{ id: 'x', data: 1 }]), { code: 'cluster_unavailable' })
}

async function tlsAndUsers(t: Test): Promise<void> {
  const folder = t.testdir({})
  const tls = selfSigned(folder)
  if (tls === undefined) return void t.pass('there is no openssl')
  const aclfile = join(folder, 'users.acl')
  writeFileSync(aclfile, users)
  const server = await RedisServer.startWithTls(tls, '--aclfile', aclfile)
  t.teardown(async () => await server.kill())
  await t.rejects(RedisBus.connect({ url: server.urlFor('front', 'FRONT') }), {
    code: 'cluster_unavailable',
    message: /self-signed certificate.*\(--cluster-ca must name/,
  })
  const ca = readFileSync(tls.cert, 'utf8')
  const as = async (user: string) =>
    await RedisBus.connect({ url: server.urlFor(user, user.toUpperCase()), ca })
  await t.rejects(RedisBus.connect({ url: server.url, ca }), { code: 'cluster_unavailable' })

  const [here, there, admin] = [await as('front'), await as('worker'), await as('admin')]
  t.teardown(async () => void (await Promise.all([here, there, admin].map((bus) => bus.close()))))
  const { engine, registry } = createConformanceEngine()
  const own = new LocalEngineClient(engine, registry, systemRandom)
  const id = 'worker-of-test'
  const about = { info: engine.info(), fingerprint: 'one', host: 'here' }
  const worker = new WorkerHost({ id, bus: there, client: own, ...about })
  await worker.start()
  const front = new ClusterFront({ id: 'front-of-test', bus: here })
  await front.start()
  const remote = front.client(engine.info().model.id)
  await remote.ready()

  for (const envelope of [
    'no JSON',
    '{"l":"front-of-test/1","n":2,"b":{"type":"hello","front":"x"}}',
    '[2,1]',
    '[2,"front-of-test/1",2,7]',
    '[1,"front-of-test/1",2]',
    '[2,"front-of-test/1",-1]',
    '[2,"front-of-test/1",2,{"type":"place","placement":9}]',
    '[2,"front-of-test/1",2,{"type":"served","services":{}}]',
    '[2,"front-of-test/1",2,{"type":"call","call":1,"name":"statistics"}]',
    '[2,{"order":"explode"}]',
    '[2,null]',
    '[]',
    'null',
  ]) {
    await admin.deliver(`worker:${id}`, envelope)
  }
  // Nor does a stranger's guess of a link reach anything.
  await admin.deliver(`worker:${id}`, '[2,"other/1",1,{"type":"cancel","placement":1}]')
  const types: string[] = []
  for await (const { type } of remote.submit({ prompt: { text: 'a' }, maxTokens: 3 }))
    types.push(type)
  t.same(types, ['start', 'token', 'token', 'token', 'end'], 'what is good passes')
  t.equal(worker.refusedMessages, 14, 'the rest is counted')

  await sharedCounter(here, 'requests', 60).penalty('key', 1)
  await new SharedText(admin, 'keys').update(() => 'secret')
  t.equal(await new SharedText(here, 'keys').read(), 'secret')
  const forbidden: readonly [RedisBus, ...string[]][] = [
    [there, 'GET', 'cllm:keys'],
    [there, 'SET', 'cllm:keys', 'mine'],
    [there, 'GET', 'cllm:limit:requests:key'],
    [there, 'XREAD', 'STREAMS', 'cllm:front:front-of-test', '0'],
    [there, 'SMEMBERS', 'cllm:members'],
    [there, 'EVAL', 'return 1', '0'],
    [there, 'KEYS', '*'],
    [there, 'FLUSHALL'],
    [here, 'XREAD', 'STREAMS', `cllm:worker:${id}`, '0'],
    [here, 'SET', `cllm:member:${id}`, 'mine'],
    [here, 'CONFIG', 'GET', '*'],
    [admin, 'XREAD', 'STREAMS', `cllm:worker:${id}`, '0'],
  ]
  for (const [bus, ...command] of forbidden) {
    await t.rejects(bus.store.client.sendCommand(command), /NOPERM/, command.join(' '))
  }
  for (const bus of [here, admin]) {
    t.ok((await bus.present([id]))?.has(id), 'fronts and `cllm cluster` see that the worker lives')
  }
  await t.rejects(there.present([id]), { message: /NOPERM.*users\.acl/ })
  await testShared(t, here)
  await t.rejects(new SharedRecords(there, 'batch:files').list(), { message: /NOPERM/ })
  const another = there.another.bind(there)
  let opened: { readonly isOpen: boolean } | undefined
  there.another = async (options) => (opened = await another(options))
  await t.rejects(JobQueue.open(there, 'batch', silentLogger), {
    code: 'cluster_unavailable',
    message: /NOPERM/,
  })
  t.equal(opened?.isOpen, false, 'a queue that cannot be opened leaves no connection')
  await front.close()
  await worker.close()
  await own.close()
}

/** A worker whose engine takes some time for each step. */
async function workerOn(t: Test, bus: ClusterBus, id: string, options: FakeBackendOptions = {}) {
  const backend = new FakeBackend({ clock: systemClock, stepMs: () => 5, ...options })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock: systemClock })
  const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
  t.teardown(async () => await client.close())
  const about = { info: engine.info(), fingerprint: 'one', host: 'here' }
  return new WorkerHost({ id, bus, client, ...about })
}

/** What a server says that cannot be a cluster's, to a front and to a worker. */
async function testRefusing(t: Test, message: RegExp, ...settings: readonly string[]) {
  const server = await RedisServer.start(...settings)
  t.teardown(async () => await server.kill())
  const bus = await RedisBus.connect({ url: server.url })
  t.teardown(async () => await bus.close())
  const refused = { code: 'cluster_unavailable', message }
  await t.rejects(new ClusterFront({ id: 'front', bus }).start(), refused)
  await t.rejects((await workerOn(t, bus, 'worker')).start(), refused)
}

async function fullServer(t: Test): Promise<void> {
  const server = await RedisServer.start()
  t.teardown(async () => await server.kill())
  let tell: (text: string) => void = () => {}
  const logger = { ...silentLogger, error: (about: object) => tell(JSON.stringify(about)) }
  const told = new Promise<string>((resolve) => (tell = resolve))
  const [there, here] = [
    await RedisBus.connect({ url: server.url, logger }),
    await RedisBus.connect({ url: server.url }),
  ]
  // It computes no tenth token before the server is full.
  const clock = new StoppableClock(systemClock)
  const stepMs = () => {
    if (++steps === 10 && !isFull) clock.stop()
    return 5
  }
  let [steps, count, isFull] = [0, 0, false]
  const worker = await workerOn(t, there, 'worker', { clock, stepMs })
  await worker.start()
  await t.rejects(
    (await workerOn(t, here, 'worker')).start(),
    /a worker with the id worker already/,
  )
  const front = new ClusterFront({ id: 'front', bus: here })
  await front.start()
  const client = front.client('fake')
  await client.ready()
  const settings = await connectTo({ url: server.url }).connect()
  const asked = { prompt: { text: 'x' }, maxTokens: 60, sampling: { ignoreEos: true } }
  const limit = async (bytes: string) =>
    await settings.sendCommand(['CONFIG', 'SET', 'maxmemory', bytes])
  const keeping = { limitBytes: 1e6, maxAgeMs: 600_000 }
  const states = new RedisStates(here, 'responses', keeping, silentLogger)
  const head = { key: 'of a test', scope: 'a', partial: false, tokens: [] }
  const state = await states.write(head, Buffer.from('a'))
  const stream = (async () => {
    for await (const { type } of client.submit(asked)) {
      if (type !== 'token' || ++count !== 3) continue
      await limit('1')
      isFull = true
      clock.goOn()
    }
  })()
  // A log leaves out what is called a refusal, as models' are.
  t.match(await told, /"reason":"OOM .*it has no memory left/)
  t.equal(there.isReachable, false, 'what is silent meanwhile is not dead')
  t.equal(await states.write({ ...head, scope: 'b' }, Buffer.from('b')), undefined)
  await states.remove(state!)
  t.equal(await states.find(head), undefined, 'what is removed makes room')
  await limit('0')
  await stream
  t.equal(count, 60)
  t.match(client.workers.counts, { placed: 1 }, 'it went on where it was')
  settings.destroy()
  await front.close()
  await worker.close()
  await Promise.all([there.close(), here.close()])
}

/** A worker and a front whose server has a name that a relay stands for. */
async function relayed(t: Test, server: RedisServer) {
  const relay = await TcpRelay.start(server.port)
  t.teardown(() => relay.close())
  const [there, here] = [
    await RedisBus.connect({ url: relay.url }),
    await RedisBus.connect({ url: relay.url }),
  ]
  t.teardown(async () => void (await Promise.all([there.close(), here.close()])))
  const worker = await workerOn(t, there, 'worker')
  await worker.start()
  const front = new ClusterFront({ id: 'front', bus: here })
  await front.start()
  const client = front.client('fake')
  await client.ready()
  t.teardown(async () => {
    await front.close()
    await worker.close()
  })
  const sampling = { seed: 1, ignoreEos: true }
  /** The tokens of a stream; calls back with how many there are. */
  const stream = async (onToken: (count: number) => Promise<void> | void = () => {}) => {
    const tokens: number[] = []
    for await (const event of client.submit({ prompt: { text: 'x' }, maxTokens: 120, sampling })) {
      if (event.type === 'token') await onToken(tokens.push(event.token))
    }
    return tokens
  }
  return { relay, here, worker, client, stream }
}

/** What a server answers, as text. */
async function ask(server: RedisServer, ...words: readonly string[]): Promise<string> {
  const client = await connectTo({ url: server.url }).connect()
  try {
    const answer: unknown = await client.sendCommand(words)
    if (Array.isArray(answer)) return answer.join()
    return typeof answer === 'string' ? answer : ''
  } finally {
    client.destroy()
  }
}

t.test('another server behind the same name', { skip: missing ?? false }, async (t) => {
  // They wait at the same time, too.
  t.jobs = 4
  void t.test('one that vanishes without a word is left', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const { relay, client, stream } = await relayed(t, server)
    const undisturbed = await stream()
    const before = client.workers.counts.placed
    const answer = await stream((count) => {
      if (count === 3) relay.freeze()
    })
    t.same(answer, undisturbed)
    t.equal(client.workers.counts.placed - before, 1, 'where it was')
  })

  void t.test('one that becomes a replica is left', async (t) => {
    const old = await RedisServer.start()
    t.teardown(async () => await old.kill())
    const next = await RedisServer.start('--replicaof', '127.0.0.1', String(old.port))
    t.teardown(async () => await next.kill())
    while (!(await ask(next, 'INFO', 'replication')).includes('master_link_status:up'))
      await pause(10)
    const { relay, here, stream } = await relayed(t, old)
    const undisturbed = await stream()
    const queue = await JobQueue.open<number>(here, 'batch', silentLogger)
    t.teardown(async () => await queue.close())
    let onJob: (data: number) => void = () => {}
    await queue.process(1, async ({ data }) => {
      onJob(data)
      return undefined
    })
    const done = async (data: number) => {
      const isDone = new Promise((resolve) => (onJob = resolve))
      const add = async () => await queue.add([{ id: `job-${data}`, data }])
      while (
        !(await add().then(
          () => true,
          () => false,
        ))
      )
        await pause(10)
      return await isDone
    }
    t.equal(await done(1), 1)
    const answer = await stream(async (count) => {
      if (count !== 3) return
      // What a queue, and who does its jobs, ask first.
      relay.cutAt.push(...Array.from({ length: 5 }, () => '$4\r\nINFO'))
      relay.stayAndGo(next.port)
      await ask(next, 'REPLICAOF', 'NO', 'ONE')
      await ask(old, 'REPLICAOF', '127.0.0.1', String(next.port))
    })
    t.same(answer, undisturbed)
    t.equal(await done(2), 2, 'jobs, too')
    t.same(relay.cutAt, [], 'however often the first question fails')
    const members = async () => await ask(next, 'SMEMBERS', 'cllm:members')
    while ((await members()) !== 'worker') await pause(10)
    const left = async () => (await ask(old, 'CLIENT', 'LIST', 'TYPE', 'normal')).trim().split('\n')
    // Until nobody but this question is there.
    while ((await left()).length > 1) await pause(10)
    await old.kill()
    await old.restart()
    t.equal(await ask(old, 'KEYS', '*'), '', 'a new one loads nothing')
    t.same(await stream(), undisturbed)
  })

  void t.test('a queue that ends while its connection is lost leaves none', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const relay = await TcpRelay.start(server.port)
    t.teardown(() => relay.close())
    const bus = await RedisBus.connect({ url: relay.url })
    t.teardown(async () => await bus.close())
    const another = bus.another.bind(bus)
    const copies: { readonly isOpen: boolean }[] = []
    bus.another = async (options) => {
      const client = await another(options)
      const copy = client.duplicate.bind(client)
      client.duplicate = () => {
        const made = copy()
        copies.push(made)
        return made as never
      }
      return client
    }
    let onError = (): void => {}
    const logger = { ...silentLogger, debug: () => onError() }
    const queue = await JobQueue.open<number>(bus, 'batch', logger)
    await queue.process(1, async () => undefined)
    const waiting = async (): Promise<string | undefined> =>
      /id=(\d+).* cmd=bzpopmin/.exec(await ask(server, 'CLIENT', 'LIST'))?.[1]
    while ((await waiting()) === undefined) await pause(10)
    const lost = new Promise<void>((resolve) => (onError = resolve))
    relay.stayAndGo(await freePort())
    await ask(server, 'CLIENT', 'KILL', 'ID', (await waiting()) ?? '')
    await lost
    await new Promise(setImmediate)
    await ask(server, 'REPLICAOF', '127.0.0.1', '1')
    await t.rejects(queue.add([{ id: 'job', data: 1 }]), {
      code: 'cluster_unavailable',
      message: /refuses a command: READONLY/,
    })
    await queue.close()
    await new Promise(setImmediate)
    t.match(copies, [{ isOpen: false }])
  })

  void t.test(
    'one whose password is changed says so in the log, and is used when it is back',
    async (t) => {
      const server = await RedisServer.start('--requirepass', 'one')
      t.teardown(async () => await server.kill())
      const url = server.url.replace('//', '//:one@')
      const said: unknown[] = []
      let onReason = (): void => {}
      const warn = (fields: { readonly reason?: string }): void => {
        said.push(fields.reason)
        if (fields.reason !== undefined) onReason()
      }
      const bus = await RedisBus.connect({ url, logger: { ...silentLogger, warn } })
      t.teardown(async () => await bus.close())
      const admin = await RedisBus.connect({ url })
      t.teardown(async () => await admin.close())
      const isTold = new Promise<void>((resolve) => (onReason = resolve))
      await admin.command('CONFIG', 'SET', 'requirepass', 'two')
      await admin.command('CLIENT', 'KILL', 'TYPE', 'normal') // but this one
      await isTold
      t.match(said, [undefined, /WRONGPASS.*the URL has the wrong user or password/])
      await admin.command('CONFIG', 'SET', 'requirepass', 'one')
      const isBack = async () => (await bus.command('PING').catch(() => '')) === 'PONG'
      while (!(await isBack())) await pause(10)
      t.equal(said.length, 2)
    },
  )

  void t.test('a mailbox with the greatest id goes on', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const bus = await RedisBus.connect({ url: server.url })
    t.teardown(async () => await bus.close())
    const read = new Set<string>()
    bus.listen('front:one', (envelope) => read.add(envelope))
    const greatest = String(2n ** 64n - 1n)
    await bus.command('XADD', 'cllm:front:one', `${greatest}-${greatest}`, 'l', 'forged')
    while (!read.has('own')) {
      bus.send('front:one', 'own')
      await pause(10)
    }
    t.same([...read], ['forged', 'own'])
  })

  void t.test('a queue ends while it moves and no server is there', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const bus = await RedisBus.connect({ url: server.url })
    t.teardown(async () => await bus.close())
    const another = bus.another.bind(bus)
    const queue = await JobQueue.open<number>(bus, 'batch', silentLogger)
    await queue.process(1, async () => undefined)
    await ask(server, 'REPLICAOF', '127.0.0.1', '1')
    const isMoving = new Promise<void>((resolve) => {
      bus.another = async (options) => {
        await server.kill()
        setImmediate(resolve)
        return await another(options)
      }
    })
    await t.rejects(queue.add([{ id: 'job', data: 1 }]), { code: 'cluster_unavailable' })
    await isMoving
    await queue.close()
  })

  void t.test('a command waits for a connection that is made anew', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const bus = await RedisBus.connect({ url: server.url })
    t.teardown(async () => await bus.close())
    const { client } = bus.store
    const isLost = new Promise((resolve) => void client.once('reconnecting', resolve))
    await ask(server, 'CLIENT', 'KILL', 'TYPE', 'NORMAL')
    await isLost
    t.equal(await bus.command('PING'), 'PONG')
    await server.kill()
    await t.rejects(bus.command('PING'), { code: 'cluster_unavailable' })
  })

  void t.test('one that pauses writes is away', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const clock = new SimulatedClock()
    const bus = await RedisBus.connect({ url: server.url, clock })
    t.teardown(async () => await bus.close())
    await ask(server, 'CLIENT', 'PAUSE', '1000000', 'WRITE')
    bus.send('other', 'x')
    await pause(0)
    t.equal(bus.isReachable, true)
    clock.advance(500)
    t.equal(bus.isReachable, false, 'others may be silent')
    await ask(server, 'CLIENT', 'UNPAUSE')
    while (!bus.isReachable) await pause(10)
  })

  void t.test('one that is starved at the start has its time', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    process.kill(server.pid, 'SIGSTOP')
    // Longer than a connection waits for a byte.
    setTimeout(() => process.kill(server.pid, 'SIGCONT'), 5500)
    const bus = await RedisBus.connect({ url: server.url })
    t.equal(await bus.command('PING'), 'PONG')
    await bus.close()

    process.kill(server.pid, 'SIGSTOP')
    const clock = new SimulatedClock()
    const refused = ({ url }: { readonly url: string }, message: RegExp) =>
      t.rejects(RedisBus.connect({ url, clock }), { message })
    const early = refused(server, /no answer within 5000 ms/)
    clock.advance(5000)
    await early
    const relay = await TcpRelay.start(server.port)
    t.teardown(() => relay.close())
    const late = refused(relay, /no answer within 30000 ms/)
    while (relay.size < 2) await pause(10)
    await pause(10) // the client hears that it is taken
    clock.advance(5000)
    clock.advance(25_000)
    await late
  })

  void t.test('one whose long answer is on its way is no silent one', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const relay = await TcpRelay.start(server.port)
    t.teardown(() => relay.close())
    const clock = new SimulatedClock()
    const said: string[] = []
    const warn = (_: object, text: string): void => void said.push(text)
    const logger = { ...silentLogger, warn }
    const bus = await RedisBus.connect({ url: relay.url, clock, logger })
    t.teardown(async () => await bus.close())
    await bus.command('PING')
    relay.freeze()
    const answer = t.rejects(bus.long(10_000_000, 'GET', 'x'), { code: 'cluster_unavailable' })
    const pass = (ms: number): void => {
      for (let at = 0; at < ms; at += 500) clock.advance(500)
    }
    pass(15_000)
    t.same(said, [])
    pass(1000)
    t.match(said[0], /is silent/)
    await answer
  })

  void t.test('one whose clock is behind is read from its beginning', async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    const { worker, stream } = await relayed(t, server)
    const undisturbed = await stream()
    const mailbox = 'cllm:worker:worker'
    const others = [['CLIENT', 'KILL', 'TYPE', 'normal'], ['PING']]
    for (const [index, lostOrNot] of others.entries()) {
      await ask(server, 'XADD', mailbox, `${index + 1}9999999999999-0`, 'l', 'of a clock ahead')
      while (worker.refusedMessages <= index) await new Promise(setImmediate)
      await ask(server, 'DEL', mailbox)
      await ask(server, ...lostOrNot)
      t.same(await stream(), undisturbed)
    }
  })
})

t.test(
  'a process begins on a connection that is just made anew',
  { skip: missing ?? false },
  async (t) => {
    const server = await RedisServer.start()
    t.teardown(async () => await server.kill())
    let onLost = (): void => {}
    const lost = new Promise<void>((resolve) => (onLost = resolve))
    const logger = { ...silentLogger, warn: () => onLost() }
    const bus = await RedisBus.connect({ url: server.url, logger })
    t.teardown(async () => await bus.close())
    await ask(server, 'CLIENT', 'KILL', 'TYPE', 'normal')
    await lost
    await t.resolves(bus.check('worker:late'))
  },
)

t.test('a server for strangers', { skip: missing ?? false }, async (t) => {
  await t.test('a full one takes envelopes again when it has room', fullServer)
  await t.test('what it keeps outlives it with the users of deploy/redis', async (t) => {
    const folder = t.testdir({ 'users.acl': users })
    const files = ['--aclfile', join(folder, 'users.acl'), '--dir', folder, '--appendonly', 'yes']
    const server = await RedisServer.start(...files, '--appendfsync', 'always')
    t.teardown(async () => await server.kill())
    const bus = await RedisBus.connect({ url: server.urlFor('front', 'FRONT') })
    t.teardown(async () => await bus.close())
    const keeping = { limitBytes: 1e6, maxAgeMs: 600_000 }
    const states = new RedisStates(bus, 'responses', keeping, silentLogger)
    const head = { key: 'of a test', scope: 'a', partial: false, tokens: [] }
    await states.write(head, Buffer.from('a'))
    await server.kill()
    await server.restart()
    t.same((await states.find(head))?.data, Buffer.from('a'), 'transactions are loaded, too')
  })
  await t.test('one that can be no cluster is told at the start', async (t) => {
    await testRefusing(t, /OOM .*no memory left/, '--maxmemory', '1')
    await testRefusing(t, /unknown command.*Redis 6.2 or later/s, '--rename-command', 'XADD', '')
    await testRefusing(t, /READONLY .*it is a replica/, '--replicaof', '127.0.0.1', '1')
    const rights = ['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-xread', '-set']
    await testRefusing(t, /NOPERM .*lacks a right/, ...rights)
    for (const right of ['mget', 'pubsub', 'srem']) {
      const others = [...rights.slice(0, -2), `-${right}`]
      const server = await RedisServer.start(...others)
      t.teardown(async () => await server.kill())
      const bus = await RedisBus.connect({ url: server.url })
      t.teardown(async () => await bus.close())
      const message = new RegExp(`NOPERM .*'${right}.*lacks a right`)
      const start = new ClusterFront({ id: 'front', bus }).start()
      await t.rejects(start, { code: 'cluster_unavailable', message }, right)
    }
    const evicting = await RedisServer.start('--maxmemory-policy', 'volatile-lru')
    t.teardown(async () => await evicting.kill())
    const warnings: object[] = []
    const logger = { ...silentLogger, warn: (about: object) => warnings.push(about) }
    await (await RedisBus.connect({ url: evicting.url, logger })).close()
    t.same(warnings, [{ policy: 'volatile-lru' }])
    const secret = await RedisServer.start('--requirepass', 'secret')
    t.teardown(async () => await secret.kill())
    for (const url of [secret.url, secret.urlFor('default', 'guess')]) {
      await t.rejects(RedisBus.connect({ url }), {
        code: 'cluster_unavailable',
        message: /(NOAUTH|WRONGPASS).*the wrong user or password, or none/,
      })
    }
  })
  await t.test('TLS, and users with the rights of deploy/redis', async (t) => await tlsAndUsers(t))
})

t.test('a server that is not there is told', async (t) => {
  const url = 'redis://user:secret@127.0.0.1:1'
  await t.rejects(RedisBus.connect({ url }), {
    code: 'cluster_unavailable',
    message: /The cluster at redis:\/\/127.0.0.1:1 cannot be reached: .*ECONNREFUSED/,
  })
})
