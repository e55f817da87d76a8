import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import {
  type Clock,
  type FoundState,
  silentLogger,
  SimulatedClock,
  type StateHead,
  systemClock,
} from '@cllm/core'
import { SharedEncodings } from '@cllm/cluster'
import { stateBytes, StateFolder, type StateFolderOptions, stateName } from '@cllm/host'
import { createClient } from '@redis/client'
import t, { type Test } from 'tap'
import { RedisServer, whyNoRedis } from './redis-server.js'

const head = (scope: string): StateHead => ({ key: 'encoder', scope, partial: false, tokens: [] })
const vectors = new Uint8Array(100_003).map((_, index) => index % 251)
const keyOf = (scope: string): string => `cllm:encodings:${stateName(head(scope))}`

const isSame = (found: FoundState | undefined): boolean =>
  found !== undefined && Buffer.compare(found.data, vectors) === 0

/** A Redis with the users of `deploy/redis`, and machines with a folder each. */
async function begin(t: Test, clock: Clock = new SimulatedClock()) {
  const folder = t.testdir({})
  const aclfile = join(folder, 'users.acl')
  const users = readFileSync(new URL('../../../deploy/redis/users.acl', import.meta.url), 'utf8')
  writeFileSync(aclfile, `${users}user test on nopass ~* &* +@all\n`)
  const server = await RedisServer.start('--aclfile', aclfile)
  const url = server.urlFor('worker', 'WORKER')
  const warnings: string[] = []
  const logger = {
    ...silentLogger,
    warn: ({ err }: { readonly err?: unknown }, text: string) =>
      void warnings.push(`${text}: ${String(err)}`),
  }
  const opened: SharedEncodings[] = []
  const open = async (name: string, options: Partial<StateFolderOptions> = {}, at = url) => {
    const about = { folder: join(folder, name), limitBytes: 1e6, ...options }
    const files = new SharedEncodings(about, clock, logger, { url: at })
    opened.push(files)
    await files.opened
    return files
  }
  const connect = async () => {
    const client = createClient({ url: server.urlFor('test', 'any'), RESP: 2 })
    client.on('error', () => {})
    await client.connect()
    return client
  }
  const [admin, listener] = [await connect(), await connect()]
  t.teardown(async () => {
    for (const files of opened) files.close()
    for (const client of [admin, listener]) if (client.isOpen) client.destroy()
    await server.kill()
  })
  const command = async (...words: readonly (string | Buffer)[]): Promise<unknown> =>
    await admin.sendCommand(words)
  /** Resolves when a machine has written what it has fetched. */
  const kept = async (name: string, scope: string, options = {}) => {
    const about = { folder: join(folder, name), limitBytes: 1e6, ...options }
    const files = new StateFolder(about, systemClock, silentLogger)
    while ((await files.find(head(scope))) === undefined) await turn()
  }
  return { server, open, kept, command, listener, warnings }
}

/** The questions to a process that has announced an encoding of each scope. */
async function standIn(
  { command, listener }: Awaited<ReturnType<typeof begin>>,
  scopes: readonly string[],
  onAsk: (ask: { readonly from: string; readonly scope: string }) => void,
): Promise<void> {
  await listener.subscribe('cllm:encodings:holder', (text) => onAsk(JSON.parse(text)))
  for (const scope of scopes) await command('SET', keyOf(scope), 'holder')
}

async function found(t: Test): Promise<void> {
  const { open, kept, command, listener } = await begin(t)
  const options = { key: 'words' }
  const [one, other, third] = [
    await open('one', options),
    await open('other', options),
    await open('third', options),
  ]
  const messages: string[] = []
  await listener.pSubscribe('cllm:encodings:*', (text) => messages.push(text))
  const written = (await one.write(head('a'), vectors))!
  await one.write({ ...head('a'), tokens: [1] }, vectors)
  t.equal(await one.find(head('none')), undefined)
  const announced = `cllm:encodings:${written.name}`
  t.same(await command('KEYS', 'cllm:encodings:*'), [announced], 'states of chats stay')

  const both = await Promise.all([other.find(head('a')), other.find(head('a'))])
  for (const files of both) t.ok(isSame(files))
  await listener.sendCommand(['PING'])
  t.equal(messages.length, 2, 'one question and its answer')
  t.same(await command('KEYS', 'cllm:encodings:to:*'), [], 'the server keeps no bytes')
  const stranger = await open('stranger', { key: 'guess' })
  t.equal(await stranger.find(head('a')), undefined)

  await kept('other', 'a', options)
  await other.touch(written)
  await other.find(head('none'))
  one.close()
  t.ok(isSame(await third.find(head('a'))), 'whoever uses it hands it over, too')
  await kept('third', 'a', options)

  await command('CONFIG', 'RESETSTAT')
  t.equal(await third.find(head('none')), undefined)
  const counts = String(await command('INFO', 'commandstats'))
  t.match(counts, /cmdstat_get:calls=1,/)
  t.notMatch(counts, /publish|getdel/, 'what nobody has costs one round trip')
  await command('SET', `cllm:encodings:${stateName(head('gone'))}`, 'killed')
  t.equal(await stranger.find(head('gone')), undefined, 'its process was killed')
}

async function silent(t: Test): Promise<void> {
  const clock = new SimulatedClock()
  const place = await begin(t, clock)
  const { server, listener } = place
  const other = await place.open('other')
  let [count, onAsk] = [0, () => {}]
  const asked = () => new Promise<void>((resolve) => (onAsk = resolve))
  await standIn(place, ['a', 'b', 'c'], () => {
    count++
    onAsk()
  })
  let asking = asked()
  const first = other.find(head('a'))
  await asking
  clock.advance(2000)
  t.equal(await first, undefined, 'nobody waits for longer')
  clock.advance(4999)
  t.equal(await other.find(head('b')), undefined)
  t.equal(count, 1, 'nor is anybody asked for a while')

  clock.advance(1)
  asking = asked()
  const second = other.find(head('b'))
  await asking
  listener.destroy()
  clock.advance(2000)
  t.equal(await second, undefined, 'it was killed while it was asked')

  clock.advance(5000)
  process.kill(server.pid, 'SIGSTOP')
  const third = other.find(head('c'))
  while (clock.nextTimer() !== clock.now() + 100) await turn()
  clock.advance(100)
  t.equal(await third, undefined, 'the server is silent')
  process.kill(server.pid, 'SIGCONT')
}

async function corrupt(t: Test): Promise<void> {
  const clock = new SimulatedClock()
  const place = await begin(t, clock)
  const { open, kept, command, warnings } = place
  const good = (scope: string) => stateBytes(head(scope), vectors)
  const flipped = good('flipped')
  flipped[50_000]! ^= 1
  const sent: Record<string, readonly [sent: Buffer | undefined, said?: number]> = {
    good: [good('good')],
    flipped: [flipped],
    short: [good('short').subarray(0, -1)],
    misnamed: [good('other')],
    text: [Buffer.from('no encoding')],
    missing: [undefined, 7],
    none: [undefined, 0],
    large: [good('large'), 2 ** 24 + 1],
    nonsense: [good('nonsense'), Number.NaN],
  }
  const other = await open('other')
  await standIn(place, Object.keys(sent), ({ from, scope }) => {
    const [bytes, said = bytes?.byteLength] = sent[scope]!
    const name = stateName(head(scope))
    if (bytes) void command('SET', `cllm:encodings:to:${from}:${name}`, bytes)
    void command('PUBLISH', `cllm:encodings:${from}`, JSON.stringify({ name, bytes: said }))
  })
  const results: string[] = []
  for (const scope of Object.keys(sent)) {
    if ((await other.find(head(scope))) !== undefined) results.push(scope)
    // Failures are told once a minute.
    clock.advance(60_000)
  }
  t.same(results, ['good'])
  t.match(warnings, [/checksum/, /cut short/, /other tokens/, /Error/])
  t.equal(warnings.length, 4)
  const [, id] = /^cllm:encodings:(\w{16})$/m.exec(
    ((await command('PUBSUB', 'CHANNELS')) as string[]).join('\n'),
  )!
  for (const text of ['no JSON', 'null', '7', '{"name":1}', '{"from":[]}']) {
    await command('PUBLISH', `cllm:encodings:${id}`, text)
  }
  await command('SET', keyOf('good again'), 'holder')
  sent['good again'] = [good('good again')]
  t.ok(await other.find(head('good again')), 'nor does a stranger’s message end anything')
  for (const scope of ['good', 'good again']) await kept('other', scope)
}

async function away(t: Test): Promise<void> {
  const { server, open, kept } = await begin(t, systemClock)
  const [one, other] = [await open('one'), await open('other')]
  await server.kill()
  const written = (await one.write(head('a'), vectors))!
  t.ok(written, 'it is kept')
  t.equal(await other.find(head('a')), undefined)
  await server.restart()
  let again: unknown
  while (again === undefined) {
    await one.touch(written)
    again = await other.find(head('a'))
    await turn()
  }
  t.match(again, { scope: 'a' }, 'both have connected again')
  await kept('other', 'a')
}

async function refused(t: Test): Promise<void> {
  const { open, warnings } = await begin(t)
  // As it was in `deploy/redis` before encodings were shared.
  const old = 'resetchannels &cllm:alive:* ~cllm:worker:* +@connection +set +subscribe'
  const server = await RedisServer.start('--user', 'worker', 'on', '>WORKER', ...old.split(' '))
  t.teardown(async () => await server.kill())
  const url = server.urlFor('worker', 'WORKER')
  const [one, other] = [await open('one', {}, url), await open('other', {}, url)]
  t.ok(await one.write(head('a'), vectors))
  t.ok(await one.find(head('a')))
  t.equal(await other.find(head('a')), undefined)
  t.equal(warnings.length, 2, 'each has said it once')
  t.match(warnings[0], /not shared: a right of .*users\.acl is missing.*NOPERM/)
}

const missing = whyNoRedis()
t.test('encodings of other machines', { skip: missing ?? false }, async (t) => {
  await t.test('are found', found)
  await t.test('whose holder, or server, is silent', silent)
  await t.test('that are corrupt', corrupt)
  await t.test('while Redis is away', away)
  await t.test('which the user may not share', refused)
})
