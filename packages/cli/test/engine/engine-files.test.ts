import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import module from 'node:module'
import { join } from 'node:path'
import { type Recording, silentLogger } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import { resolveModel, spawnEngine } from 'cllm'
import t from 'tap'
import { asLoaded } from '../../src/engine/spawn-engine.js'
import { CrashFiles, openLearned } from '../../src/engine/engine-files.js'
import { quietSettings } from './test-settings.js'

function logging() {
  const lines: string[] = []
  const logger = { ...silentLogger, debug: (_: object, line: string) => void lines.push(line) }
  return { lines, logger }
}

const open = async (folder: string, kind: unknown = ['a']) =>
  await openLearned(folder, kind, silentLogger)

/** The only file of a folder. */
const only = async (folder: string) => join(folder, (await readdir(folder))[0] ?? '')

t.test('an engine of the same kind finds what was kept, and no other one', async (t) => {
  const folder = join(t.testdir(), 'new', 'learned')
  const first = await open(folder)
  t.equal(first.known, undefined)
  await first.keep({ steps: [1, 2] })
  t.same((await open(folder)).known, { steps: [1, 2] })
  for (const other of [['b'], ['a', 'library'], { a: 1 }, 'a']) {
    t.equal((await open(folder, other)).known, undefined)
  }
  t.match(await readdir(folder), [/^[0-9a-f]{32}\.json$/], 'one whole file')
})

t.test('a file that is damaged, or is none, is one line', async (t) => {
  const folder = t.testdir()
  await (await open(folder)).keep(1)
  const file = await only(folder)
  const whole = await readFile(file, 'utf8')
  const big = JSON.stringify({ ...JSON.parse(whole), learned: 'x'.repeat(70_000) })
  for (const text of [
    '',
    whole.slice(0, -1),
    '7',
    'null',
    '{}',
    whole.replace('"of":"', '"of":"0'),
    big,
  ]) {
    await writeFile(file, text)
    const { lines, logger } = logging()
    const { known } = await openLearned(folder, ['a'], logger)
    t.equal(known, undefined, text.slice(0, 60))
    t.equal(lines.length, 1)
  }
  const inFolder = t.testdir()
  await (await open(inFolder)).keep(1)
  const name = (await readdir(inFolder))[0]!
  const taken = t.testdir({ [name]: {} })
  const { lines, logger } = logging()
  const store = await openLearned(taken, ['a'], logger)
  await store.keep(2)
  t.equal(lines.length, 2, 'a folder in its place can be neither read nor replaced')
  t.same(await readdir(taken), [name], 'and nothing is left beside it')
})

t.test('a recording that cannot be written leaves nothing', async (t) => {
  const name = 'crash-1970-01-01T00-00-00-005Z.json'
  const folder = t.testdir({ [name]: {} })
  const files = new CrashFiles(folder, silentLogger)
  files.keep({ beginsAt: 0, durationMs: 5 } as Recording)
  await files.written()
  t.same(await readdir(folder), [name])
})

t.test('a folder that cannot be written is harmless', async (t) => {
  const file = join(t.testdir({ file: 'text' }), 'file')
  const { lines, logger } = logging()
  const store = await openLearned(join(file, 'learned'), ['a'], logger)
  await store.keep(1)
  t.equal(store.known, undefined)
  t.equal(lines.length, 1)
})

t.test('two servers that keep at once leave the whole of one', async (t) => {
  const folder = t.testdir()
  const stores = [await open(folder), await open(folder)]
  const all = Array.from({ length: 40 }, (_, nth) => nth)
  await Promise.all(all.map(async (nth) => await stores[nth % 2]!.keep(nth)))
  t.ok(all.includes((await open(folder)).known as number))
  t.equal((await readdir(folder)).length, 1)
})

t.test('a folder has 64 files, and what is not ours', async (t) => {
  const left = (nth: number) => [
    `${'0'.repeat(32)}.json.${'0'.repeat(34)}${nth}.part`,
    'left behind',
  ]
  const parts = Array.from({ length: 70 }, (_, nth) => left(10 + nth) as [string, string])
  const folder = t.testdir({ 'notes.json': '1', ...Object.fromEntries(parts) })
  for (const [nth, [name]] of parts.entries()) await utimes(join(folder, name), nth % 9, nth % 9)
  for (const kind of ['old', 'new']) await (await open(folder, kind)).keep(kind)
  const names = await readdir(folder)
  t.equal(names.length, 65)
  const gone = parts.flatMap(([name], nth) => (names.includes(name) ? [] : [nth % 9]))
  t.same(gone, Array(8).fill(0), 'the oldest go')
  t.ok(names.includes('notes.json'))
  t.equal((await open(folder, 'new')).known, 'new')
})

t.test("an engine's process begins with what the one before had learned", async (t) => {
  const home = t.testdir()
  const folder = join(home, 'cllm', 'learned')
  const { path } = await resolveModel('stories15m')
  const env = { ...plainEnvironment(process.env), XDG_CACHE_HOME: home }
  const platform = process.platform
  if (platform === 'darwin' || platform === 'win32') return t.pass('another folder')
  const backend = { modelPath: path, slots: 2, gpu: 'off', threads: 1 }
  const run = async (more: object, ...prompts: string[]) => {
    const engine = await spawnEngine(
      { ...quietSettings, backend: { ...backend, ...more } },
      { env },
    )
    for (const text of prompts) {
      for await (const _ of engine.client.submit({ prompt: { text }, maxTokens: 8 }));
    }
    await asLoaded(engine).close()
  }
  await mkdir(folder, { recursive: true })
  await run({}, 'Once upon a time there was a dog')
  const file = await only(folder)
  interface Kept {
    readonly learned: { readonly policy: { readonly steps: readonly number[] } }
  }
  const kept = async () => (JSON.parse(await readFile(file, 'utf8')) as Kept).learned
  const learned = await kept()
  t.equal(learned.policy.steps.length, 9)
  // from Node 22.10 on
  if ('flushCompileCache' in module) {
    const compiled = await readdir(join(home, 'cllm', 'compiled-engine'), { recursive: true })
    t.ok(compiled.length > 1, 'compiled code is kept, too, although the process was killed')
  }
  await run({})
  t.same(await kept(), learned, 'and ends with it, where nothing was asked')
  await run({ contextSize: 128 }, 'Once')
  t.equal((await readdir(folder)).length, 2, 'other settings have a file of their own')
})
