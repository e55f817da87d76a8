import { createHash } from 'node:crypto'
import { fail } from 'node:assert'
import { once } from 'node:events'
import { readdir, readFile, rm, writeFile, symlink, utimes } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isAbsolute, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { CllmError } from '@cllm/core'
import { resolveModel } from 'cllm'
import t from 'tap'
import { cacheFolder, nativeFolder } from '../../../src/models/cache-folder.js'
import { BlobFiles } from '../../../src/models/catalog/blob-files.js'
import { catalog, DEFAULT_MODEL } from '../../../src/models/catalog/catalog.js'
import { gpuLayersFor } from '../../../src/commands/model/facts.js'
import { chooseModel } from '../../../src/models/choose-model.js'
import type { FetchProgress } from '../../../src/models/fetch/fetch-once.js'
import { formatBytes, textTable } from '../../../src/process/terminal.js'
import { layersOf, memoryOn, shapeOf } from '../../../src/models/catalog/memory-of.js'
import {
  downloadedModel,
  downloadedModels,
  listModels,
  modelTable,
} from '../../../src/models/catalog/known-models.js'
import { progressDisplay } from '../../../src/models/fetch/progress-bar.js'

t.test('the listing', async (t) => {
  const folder = t.testdir({})
  const before = await listModels(folder)
  t.same(
    before.map(({ name, bytes, present }) => ({ name, bytes, present })),
    catalog.map(({ name, bytes, projector }) => {
      return { name, bytes: bytes + (projector?.bytes ?? 0), present: false }
    }),
  )
  await writeFile(join(folder, 'stories15m-q8_0.gguf'), 'GGUF…')
  const after = await listModels(folder)
  t.match(
    after.find(({ name }) => name === 'stories15m'),
    {
      present: true,
      bytes: 7,
      path: join(folder, 'stories15m-q8_0.gguf'),
    },
  )
  t.equal(after.filter(({ present }) => present).length, 1)
  const table = modelTable(after, 4e9).split('\n')
  t.ok(table.some((row) => /tinyllama-1\.1b-chat .*323 MB.*438 MB ✓.*Apache-2\.0.*no/.test(row)))
  t.ok(table.some((row) => /stories15m .*7 B.*MIT.*yes/.test(row)))
  t.ok(table.some((row) => /qwen3-8b .*~5\.0 GB .*5\.8 GB ✗/.test(row)))
  t.notOk(table.join('').includes('\u001B'), 'plain text')
})

t.test('a link to a file that is away costs itself', async (t) => {
  const folder = t.testdir({ 'here.gguf': 'GGUF…' })
  await symlink(join(folder, 'gone'), join(folder, 'away.gguf'))
  t.match(await downloadedModels(folder), [{ name: join(folder, 'here.gguf'), bytes: 7 }])
  await t.rejects(downloadedModel(folder, 'away.gguf'), { code: 'model_unavailable' })
})

t.test('sizes', async (t) => {
  const sizes = { 0: '0 B', 999: '999 B', 1_000: '1.0 kB', 16_879_424: '16.9 MB' }
  for (const [bytes, text] of Object.entries(sizes)) t.equal(formatBytes(Number(bytes)), text)
  t.equal(formatBytes(322_591_712), '323 MB')
  t.equal(formatBytes(3.8e9), '3.8 GB')
  t.equal(formatBytes(5e15), '5000 TB')
})

t.test('the folder', async (t) => {
  const home = join('/home', 'me')
  const folder = (platform: NodeJS.Platform, env: NodeJS.ProcessEnv) =>
    cacheFolder({ env, platform, home })
  t.equal(folder('linux', {}), join(home, '.cache', 'cllm', 'models'))
  t.equal(folder('linux', { XDG_CACHE_HOME: '/xdg' }), join('/xdg', 'cllm', 'models'))
  t.equal(folder('linux', { XDG_CACHE_HOME: '' }), join(home, '.cache', 'cllm', 'models'))
  t.equal(folder('darwin', {}), join(home, 'Library', 'Caches', 'cllm', 'models'))
  t.equal(folder('win32', {}), join(home, 'AppData', 'Local', 'cllm', 'Cache', 'models'))
  t.equal(folder('win32', { LOCALAPPDATA: '/l' }), join('/l', 'cllm', 'Cache', 'models'))
  t.equal(folder('darwin', { CLLM_CACHE: '/big' }), resolve('/big'))
  t.ok(cacheFolder({ env: {} }).includes('cllm'), 'has defaults')
  const { HOME } = process.env
  process.env['HOME'] = ''
  const without = cacheFolder({ env: {} })
  if (HOME === undefined) delete process.env['HOME']
  else process.env['HOME'] = HOME
  t.ok(isAbsolute(without), 'an empty HOME is none')
  type Folders = { readonly cacheFolder: typeof cacheFolder }
  const { cacheFolder: homeless } = await t.mockImport<Folders>(
    '../../../src/models/cache-folder.js',
    { '../../../src/config/paths.js': { homeFolder: () => fail('this user has none') } },
  )
  t.throws(() => homeless({ env: {}, platform: 'linux' }), { message: 'this user has none' })
  const named = homeless({ env: { XDG_CACHE_HOME: '/xdg' }, platform: 'linux' })
  t.equal(named, join('/xdg', 'cllm', 'models'), 'and needs none')
  t.equal(
    nativeFolder({ env: {}, platform: 'linux', home }),
    join(home, '.cache', 'cllm', 'native'),
  )
  t.equal(nativeFolder({ env: { CLLM_CACHE: '/big' } }), join(resolve('/big'), 'native'))
})

t.test('progress', async (t) => {
  const shown = (isTTY: boolean, events: FetchProgress[]) => {
    const written: string[] = []
    const display = progressDisplay({ isTTY, write: (text) => written.push(text) })
    for (const event of events) display.show(event)
    display.close()
    return written.join('')
  }
  const bytes = (receivedBytes: number): FetchProgress => ({
    kind: 'bytes',
    receivedBytes,
    totalBytes: 1_000_000,
  })
  const start: FetchProgress = {
    kind: 'start',
    model: 'm',
    source: 'npm, a',
    totalBytes: 1_000_000,
  }
  const events: FetchProgress[] = [
    { kind: 'waiting', model: 'm' },
    start,
    ...[1, 99_999, 100_000, 150_000, 460_000].map(bytes),
    { kind: 'failed', source: 'npm, a', reason: 'gone' },
    { kind: 'start', model: 'm', source: 'b' },
    ...[500_000, 1_200_000, 1_300_000].map(bytes),
    { kind: 'checking' },
    { kind: 'done', model: 'm', path: '/m.gguf' },
  ]
  t.equal(
    shown(false, events),
    `another process is fetching m: waiting for it
fetching m (1.0 MB) from npm, a
10 % of 1.0 MB
40 % of 1.0 MB
failed from npm, a: gone
fetching m from b
50 % of 1.0 MB
100 % of 1.0 MB
checking the file
m is at /m.gguf
`,
    'lines where there is no terminal',
  )
  const bar = shown(true, [start, bytes(460_000)])
  t.match(bar, /█+░+ 46 % \| 460 kB of 1\.0 MB/, 'a bar on a terminal')
  const [hide = -1, show = -1] = ['?25l', '?25h'].map((code) => bar.lastIndexOf(`\u001B[${code}`))
  t.ok(hide !== -1 && show > hide, 'which gives the cursor back when it is closed early')
  t.notMatch(
    shown(
      true,
      [bytes(1)].map((event) => ({ ...event, totalBytes: 0 })),
    ),
    /%/,
  )
})

t.test('a table fits a narrow terminal, and no text is lost', (t) => {
  const rows = [['qwen3-0.6b-q8_0', 'loaded', '/home/someone/.cache/cllm/models/qwen3-0.6b.gguf']]
  const lines = (columns: number): string[] =>
    textTable(['name', 'state', 'file'], rows, columns).split('\n')
  t.equal(lines(200).at(-3), `│ ${rows[0]!.join(' │ ')} │`)
  t.equal(lines(Infinity)[0], lines(200)[0])
  const narrow = lines(60)
  t.same([...new Set(narrow.slice(0, -1).map(({ length }) => length))], [60])
  const cells = narrow.slice(3, -2).map((line) => line.split('│').map((cell) => cell.trim()))
  t.same(
    [1, 2, 3].map((at) => cells.map((line) => line[at]).join('')),
    rows[0],
  )
  t.end()
})

t.test('a server without a model chooses one', async (t) => {
  const asked: string[] = []
  let answer = (response: ServerResponse): unknown => response.writeHead(302).end()
  const host = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(host, 'listening')
  t.teardown(() => host.close())
  const cacheFolder = t.testdir({})
  const address = `127.0.0.1:${(host.address() as AddressInfo).port}`
  const choose = async (available = 16e9, patienceMs = 60_000) =>
    await chooseModel({
      env: { HF_ENDPOINT: `http://${address}` },
      cacheFolder,
      available,
      slots: 16,
      contextSize: undefined,
      signal: new AbortController().signal,
      patienceMs,
    })
  t.match(await choose(), { spec: 'qwen3-0.6b', reason: `${address} has it, and it fits` })
  t.match(asked, [/^HEAD \/unsloth\/Qwen3-0\.6B-GGUF\/resolve\/[0-9a-f]{40}\/Qwen3-.*\.gguf$/])
  const small = { spec: DEFAULT_MODEL, reason: /would need 8\.\d GB with these slots, and 4\.0 GB/ }
  t.match(await choose(4e9), small)
  answer = (response) => response.writeHead(404).end()
  t.match(await choose(), { spec: DEFAULT_MODEL, reason: /npm has this one/ })
  answer = () => {}
  t.match(await choose(16e9, 50), { spec: DEFAULT_MODEL, reason: /does not answer/ })
  await writeFile(join(cacheFolder, 'Qwen3-4B-Q4_K_M.gguf'), '')
  const before = asked.length
  t.match(await choose(32e9), { spec: 'qwen3-4b', reason: /downloaded and fits/ })
  t.equal(asked.length, before, 'no network is needed')
  host.closeAllConnections()
})

t.test('files that clients send are kept by their SHA-256', async (t) => {
  const folder = join(t.testdir(), 'blobs')
  const served: [name: string, path: string][] = []
  const model = await readFile((await resolveModel('stories15m')).path)
  const blobs = new BlobFiles(folder, (...one) => served.push(one), model.length + 20)
  const { signal } = new AbortController()
  const send = async (digest: string, bytes: Uint8Array | string, until = signal) =>
    await blobs.add(digest, Readable.from([Buffer.from(bytes)]), until)
  const digestOf = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex')
  const [gguf, other] = [digestOf(model), digestOf('no model')]
  const paths = async () => (await readdir(folder)).map((name) => name.slice('sha256-'.length))
  t.notOk(await blobs.has(gguf))
  await t.rejects(send(gguf, 'others'), { code: 'invalid_request', details: { field: 'digest' } })
  await t.rejects(send(gguf, model, AbortSignal.abort()))
  t.same(await readdir(folder), [], 'nothing is left of them')
  await send(gguf, model)
  await send(other, 'no model')
  t.ok(await blobs.has(gguf))
  await blobs.serve('mine', gguf)
  await blobs.serve('same', gguf)
  t.same(served[0], ['mine', join(folder, `sha256-${gguf}`)])
  await t.rejects(blobs.serve('none', digestOf('none')), { code: 'invalid_request' })

  const next = digestOf('0123456789abc')
  await send(next, '0123456789abc')
  t.same(
    (await paths()).toSorted(),
    [gguf, next].toSorted(),
    'the oldest without a model made room',
  )
  const large = '0123456789abcdef01234'
  await t.rejects(send(digestOf(large), large), { code: 'body_too_large' })
  await blobs.remove('mine')
  t.ok(await blobs.has(gguf), 'another model has this file')
  await blobs.remove('same', { keepsFile: true })
  t.ok(await blobs.has(gguf), 'it may be sent for another one')
  await blobs.serve('same', gguf)
  await blobs.remove('same')
  t.same(await paths(), [next], 'its last model is gone')

  const [left, open] = ['left', 'open'].map((name) => join(folder, `${name}.part`))
  await writeFile(left!, Buffer.alloc(model.length + 10))
  await writeFile(open!, 'a part')
  await utimes(left!, 1, 1)
  const others = join(folder, 'notes.txt')
  await writeFile(others, 'x'.repeat(99))
  await utimes(others, 0, 0)
  await send(next, '0123456789abc')
  t.same(
    (await readdir(folder)).toSorted(),
    ['notes.txt', 'open.part', `sha256-${next}`],
    'what a killed server left is gone, and nothing of others',
  )
  await rm(others)

  // what another upload deletes between two looks at it is there as much as this
  await symlink('nowhere', join(folder, 'sha256-gone'))
  await t.resolves(send(digestOf('late'), 'late'))
})

t.test('a broken GGUF is refused before a model is made of it', async (t) => {
  const folder = join(t.testdir(), 'blobs')
  const served: string[] = []
  const blobs = new BlobFiles(folder, (name) => served.push(name))
  const model = await readFile((await resolveModel('stories15m')).path)
  const { signal } = new AbortController()
  const broken = [
    Buffer.from('no model'),
    Buffer.from('GGUF and more'),
    model.subarray(0, 100),
    model.subarray(0, 100_000),
    Buffer.concat([model.subarray(0, 8), Buffer.alloc(4096, 255)]),
    Buffer.concat([model.subarray(0, 8), Buffer.alloc(4096)]),
  ]
  for (const [index, bytes] of broken.entries()) {
    const digest = createHash('sha256').update(bytes).digest('hex')
    await blobs.add(digest, Readable.from([bytes]), signal)
    const error = await blobs.serve('broken', digest).then(
      () => undefined,
      (error: unknown) => CllmError.from(error),
    )
    t.match(error, { code: 'invalid_request', details: { field: 'files' } }, String(index))
    t.notMatch(error?.message, folder, 'clients are not told where files are')
  }
  t.same(served, [])
})

t.test(
  'every model that sees has a memory, a hybrid only that of its layers with a cache',
  async (t) => {
    const unknown = catalog
      .filter((entry) => shapeOf(entry) === undefined)
      .map(({ title }) => title)
    t.same(
      unknown.filter((title) => title.endsWith('sees')),
      [],
    )
    const hybrid = shapeOf(catalog.find(({ name }) => name === 'lfm2-vl-1.6b')!)!
    t.equal(hybrid.cacheElementsPerToken, 6 * 8 * 2 * 64)
  },
)

t.test('how many layers fit on a GPU', async (t) => {
  const shape = shapeOf(catalog.find(({ name }) => name === 'qwen3-8b')!)!
  const gb = 1e9
  const on = (vram: number, ram = 32, unified = false, encodes = false) => ({
    ram: ram * gb,
    gpu: { ram: 32 * gb, vram: vram * gb, unified },
    encodes,
  })
  const ask = (
    vram: number,
    { asked, contextSize = 4096, ram = 32, unified = false } = {} as Asked,
  ) => gpuLayersFor(shape, contextSize, on(vram, ram, unified), asked)
  const all = layersOf(shape)
  t.equal(all, 37)
  t.same(ask(80), [all, all, all, all, all])
  t.same(ask(0.1, { ram: 4 }), [null, null, null, null, null], 'neither here nor there')
  const [one, two, four] = ask(6) as number[]
  t.ok(one! < all && one! > two! && two! > four! && four! > 0, 'fewer with more slots')
  const settings = { slots: 1, contextSize: 4096 }
  t.ok(memoryOn(shape, one!, settings, false).gpu <= 0.95 * 6 * gb)
  t.ok(memoryOn(shape, one! + 1, settings, false).gpu > 0.95 * 6 * gb)
  t.equal(memoryOn(shape, 0, settings, false).gpu, 0)
  const sees = { ...shape, projectorBytes: 1e9 }
  const fewer = (encodes: boolean) => gpuLayersFor(sees, 4096, on(6, 32, false, encodes))[0]!
  t.equal(fewer(false), one, 'the projector is in RAM')
  t.ok(fewer(true) < one!, 'the projector is on the GPU, too')
  t.same(ask(6, { asked: 99 }), [null, null, null, null, null], 'all of them were asked for')
  t.same(ask(6, { asked: 4 }).slice(0, 3), [4, 4, 4])
  t.same(ask(24, { ram: 2, asked: 99 })[0], all, 'what is on the GPU is not in RAM')
  t.same(ask(20, { ram: 8, unified: true })[0], all, 'of one memory both take their part')
})

interface Asked {
  readonly asked?: number
  readonly contextSize?: number
  readonly ram?: number
  readonly unified?: boolean
}
