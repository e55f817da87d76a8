import { existsSync, readdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import {
  type FoundState,
  type Logger,
  pause,
  silentLogger,
  systemClock,
  SimulatedClock,
  type SharedStates,
  type StateFile,
} from '@cllm/core'
import { StateFolder } from '@cllm/host'
import { drive } from '@cllm/testing'
import t, { type Test } from 'tap'
import { until } from '../../../serve.js'
import { KeptItems } from '../../../../src/protocols/openai/responses/kept-items.js'
import {
  type KeptItem,
  RecentItems,
} from '../../../../src/protocols/openai/responses/response-items.js'

/** Files in memory, whose time is how often one was touched; `write` waits for what it is given before. */
function memoryFiles(before: (scope: string) => Promise<void> | void = () => {}) {
  const written = new Map<string, Uint8Array>()
  const versions = new Map<string, string>()
  let [reads, usedAt, writes] = [0, 0, 0]
  const files: SharedStates = {
    async write(head, data, instead?: FoundState) {
      await before(head.scope)
      if (instead && instead.version !== versions.get(head.scope)) return undefined
      written.set(head.scope, data)
      versions.set(head.scope, String(++writes))
      return { ...head, name: head.scope, bytes: data.length }
    },
    async find(head) {
      reads++
      const data = written.get(head.scope)
      const version = versions.get(head.scope)!
      return data && { ...head, name: head.scope, bytes: data.length, data, usedAt, version }
    },
    async remove({ scope }: StateFile) {
      written.delete(scope)
      versions.delete(scope)
    },
    async touch() {
      usedAt++
    },
  }
  return { written, files, reads: () => reads }
}

const response = (id: string, status: string) => ({
  object: { id, object: 'response' as const, status, previous_response_id: null, output: [] },
  items: [],
})

t.test('what is written slowly for one key holds up no other', async (t) => {
  let proceed = () => {}
  const slow = new Promise<void>((resolve) => (proceed = resolve))
  const { files, written } = memoryFiles((scope) => (scope.includes('slow') ? slow : undefined))
  const items = new KeptItems(files)
  const first = items.put('slow', response('one', 'completed'))
  t.equal(await items.put('own', response('one', 'completed')), true)
  t.equal(written.size, 1)
  proceed()
  t.equal(await first, true)
})

t.test('a folder of many responses is not listed for each', async (t) => {
  const names = Array.from({ length: 300 }, (_, nth) => `${String(nth).padStart(40, '0')}.state`)
  const folder = t.testdir(Object.fromEntries(names.map((name) => [name, 'another'])))
  const clock = new SimulatedClock(1e12)
  const options = { folder, limitBytes: 1e6, maxAgeMs: 3_600_000 }
  const items = new KeptItems(new StateFolder(options, clock, silentLogger))
  const put = async (id: string) => await items.put('own', response(id, 'completed'))
  t.equal(await put('one'), true)
  const old = join(folder, names[0]!)
  utimesSync(old, 1, 1)
  t.equal(await put('two'), true)
  t.ok(existsSync(old))
  clock.advance(10_000)
  t.equal(await put('three'), true)
  t.notOk(existsSync(old), 'what is too old still goes')
  t.equal(readdirSync(folder).length, 302)
})

t.test('the latest items are known by their ids, to their owner', async (t) => {
  const recent = new RecentItems()
  const item = (id: string) => ({ id, type: 'message', content: id.repeat(6e6) })
  const find = async (id: string, owner = 'own', before: readonly KeptItem[] = []) =>
    await recent.filled(owner, [{ type: 'item_reference', id }], before)
  const unknown = { message: /^input.0: there is no such item here/ }
  recent.add('own', [item('a'), item('b')])
  recent.add('own', [item('b')])
  t.match(await find('a'), [{ content: String }], 'what comes again counts once')
  await t.rejects(find('a', 'other'), unknown)
  const before = await find('a', 'own', [item('a')])
  t.same(before, [{ type: 'item_reference', id: 'a' }], 'it stands before the input')
  recent.add('own', [item('c')])
  await t.rejects(find('a'), unknown, 'the oldest goes')
  for (const id of ['b', 'c']) t.match(await find(id), [{ id, content: String }])
})

t.test('what was removed before its answer is written is not kept', async (t) => {
  let letWrite = () => {}
  const mayWrite = new Promise<void>((resolve) => (letWrite = resolve))
  const { written, files } = memoryFiles((scope) => (scope.includes('slow') ? mayWrite : undefined))
  const items = new KeptItems(files)
  const begun = response('one', 'in_progress')
  t.ok(await items.begin('own', begun, new AbortController(), new SimulatedClock()))
  const slow = items.put('own', response('slow', 'completed'))
  const removing = items.remove('own', 'one', 'response')
  const finishing = items.finish('own', response('one', 'completed'))
  letWrite()
  await Promise.all([slow, removing])
  t.equal(await finishing, false)
  await t.rejects(items.response('own', 'one'), { code: 'not_found' })
  t.same([...written.keys()], ['["own","slow"]'])
  files.remove = async () => {}
  await t.rejects(items.remove('own', 'slow', 'response'), { code: 'storage_failed' })
})

t.test(
  'conversations and turns before a response are as large as a server can read often',
  async (t) => {
    const items = new KeptItems(memoryFiles().files)
    const large = { id: 'item', type: 'message', text: 'x'.repeat(17 * 2 ** 20) }
    const object = { id: 'talk', object: 'conversation' as const, created_at: 0, metadata: {} }
    await items.put('own', { object, items: [large] })
    const twice = items.change('own', 'talk', (kept) => ({ ...kept, items: [large, large] }))
    await t.rejects(twice, {
      code: 'invalid_request',
      message: /^items: .* at most 33554432 bytes/,
    })
    t.equal((await items.conversation('own', 'talk')).items.length, 1)
    const [one, two] = [response('one', 'completed'), response('two', 'completed')]
    const after = { ...two.object, previous_response_id: 'one' }
    await items.put('own', { ...one, items: [large] })
    await items.put('own', { object: after, items: [large] })
    t.match(await items.itemsUpTo('own', 'one'), { items: { length: 1 }, program: 'one' })
    const message = /^previous_response_id: .* at most/
    await t.rejects(items.itemsUpTo('own', 'two'), { code: 'invalid_request', message })
  },
)

const twoServers = async (t: Test, first: SharedStates, second = first) => {
  const servers = [new KeptItems(first), new KeptItems(second)]
  const object = { id: 'talk', object: 'conversation' as const, created_at: 0, metadata: {} }
  await servers[0]!.put('own', { object, items: [] })
  const ids = Array.from({ length: 20 }, (_, index) => `item-${index}`)
  const add = async (id: string, index: number) =>
    await servers[index % 2]!.change('own', 'talk', ({ items, ...kept }) => {
      return { ...kept, items: [...items, { id, type: 'message' }] }
    })
  await Promise.all(ids.map(add))
  const { items } = await servers[0]!.conversation('own', 'talk')
  t.same(new Set(items.map(({ id }) => id)), new Set(ids))
  t.equal(servers[0]!.unkept.size, 0)
}

t.test('two servers that change a conversation at once lose nothing', async (t) => {
  await twoServers(t, memoryFiles(() => new Promise(setImmediate)).files)
  const options = { folder: t.testdir({}), limitBytes: 1e6 }
  const warnings: string[] = []
  const warn: Logger['warn'] = (_, message) => warnings.push(message)
  const inFolder = () => new StateFolder(options, systemClock, { ...silentLogger, warn })
  await twoServers(t, inFolder(), inFolder())
  t.same(warnings, [])
})

t.test('a change is kept where its earlier version is removed to make room for it', async (t) => {
  const folder = t.testdir({})
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, text: string) => void warnings.push(text) }
  const files = new StateFolder({ folder, limitBytes: 400 }, systemClock, logger)
  const head = { key: 'any', scope: 'own', partial: false, tokens: [] }
  await files.write(head, Buffer.alloc(200))
  const found = await files.find(head)
  t.match(await files.write(head, Buffer.alloc(300), found), { bytes: 300 })
  const second = await files.find(head)
  t.equal(second?.bytes, 300)
  await files.remove(second!)
  t.equal(await files.write(head, Buffer.alloc(200), second), undefined, 'removed elsewhere')
  t.same(warnings, [])
})

t.test('an answer that ends after it was cancelled elsewhere is kept as cancelled', async (t) => {
  const { files } = memoryFiles()
  const clock = new SimulatedClock()
  const [one, other] = [new KeptItems(files), new KeptItems(files)]
  await one.begin('own', response('one', 'in_progress'), new AbortController(), clock)
  const cancelling = other.cancel('own', 'one', clock)
  await until(async () => (await other.response('own', 'one')).object.status === 'cancelled')
  const { object } = response('one', 'completed')
  const output = [{ id: 'a', type: 'message' }]
  t.notOk(await one.finish('own', { object: { ...object, output }, items: [] }))
  await drive(clock, cancelling)
  t.match((await other.response('own', 'one')).object, { status: 'cancelled', output })
})

t.test(
  'who looks often at what another server computes does not watch it more often',
  async (t) => {
    const { files, reads } = memoryFiles()
    const clock = new SimulatedClock()
    const [one, other] = [new KeptItems(files), new KeptItems(files)]
    t.ok(await one.begin('own', response('one', 'in_progress'), new AbortController(), clock))
    const looks = Array.from({ length: 50 }, async (_, index) => {
      await pause(clock, 100 * index)
      const found = await other.response('own', 'one')
      return await other.begin('own', found, new AbortController(), clock)
    })
    const taken = await drive(clock, Promise.all(looks))
    t.notOk(taken.includes(true), 'it stays with the one that shows life')
    t.ok(reads() < 80, `${reads()} reads, 50 of them to look`)
  },
)
