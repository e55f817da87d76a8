import { ChildProcess, fork } from 'node:child_process'
import { getEventListeners, once } from 'node:events'
import { existsSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { execArgv } from 'node:process'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import {
  attempt,
  CllmError,
  type EncodedMedia,
  type FoundState,
  type MediaFile,
  SimulatedClock,
  type StateFiles,
  type StateHead,
} from '@cllm/core'
import { until } from '@cllm/testing'
import t, { type Test } from 'tap'
import { FileEncoder } from '../../src/media/file-encoder.js'
import { openTiny, recordingLogger } from '../open-tiny.js'
import { png, wav } from './hostile-files.js'

const entry = fileURLToPath(new URL('scripted-encoder.mjs', import.meta.url))
// It needs no compiler, which takes most of the time of a process as short as this.
process.execArgv = []
t.teardown(() => (process.execArgv = execArgv))

const image = (width: number, height = 10) => ({
  type: 'image' as const,
  data: png(width, height).toString('base64'),
})

async function encode(
  encoder: FileEncoder,
  file: MediaFile,
  scope: string | undefined = '',
  signal = new AbortController().signal,
): Promise<EncodedMedia> {
  const prepared = await encoder.prepare(file, scope)
  return 'run' in prepared ? await prepared.run(signal) : prepared
}

function make(t: Test, modelPath = 'model.gguf', mmprojPath = 'mmproj.gguf', more = {}) {
  const logger = recordingLogger()
  const clock = new SimulatedClock()
  const files = { library: 'lib', modelPath, mmprojPath, threads: 1 }
  const options = { ...files, vocabularySize: 100, width: 4, atOnce: 64, cacheBytes: 4000, ...more }
  const encoder = new FileEncoder(options, logger, clock, entry)
  t.teardown(() => encoder.dispose())
  const pass = async (ms: number): Promise<void> => {
    await until(() => clock.nextTimer() === clock.now() + ms)
    clock.advance(ms)
  }
  return { encoder, logger, clock, options, pass }
}

async function open(...given: Parameters<typeof make>) {
  const made = make(...given)
  await made.encoder.open()
  return made
}

t.test('an image of low detail is another one', async (t) => {
  const { encoder } = await open(t, 'model.gguf', 'hears.gguf')
  const whole = await encode(encoder, image(20))
  const low = await encode(encoder, { ...image(20), detail: 'low' })
  t.equal(whole.spans[0]!.length, 20)
  t.equal(low.spans[0]!.length, 10)
  t.notOk(low.tokens.slice(1, -1).some((id) => whole.tokens.includes(id)))
  t.equal(await encode(encoder, { ...image(20), detail: 'low' }), low)
  const sound = wav(Buffer.alloc(2 * 8000), { rate: 8000, bits: 8 })
  const heard = { type: 'audio', data: sound.toString('base64'), detail: 'low' } as const
  t.match(await encoder.prepare(heard, ''), { size: 2 }, 'a sound is as long as it is')
})

t.test('where the GPU cannot take the projector, the CPU encodes', async (t) => {
  const onGpu = { gpuLibrary: 'ggml-cuda' }
  const { options, logger, clock, encoder } = await open(t, 'model.gguf', 'mmproj.gguf', onGpu)
  const warnings = () => logger.lines.filter(({ message }) => /the CPU encodes/.test(message))
  t.equal(warnings().length, 0)
  onGpu.gpuLibrary = 'full'
  Object.assign(options, onGpu)
  process.kill(encoder.pid!, 'SIGKILL')
  t.equal((await encode(encoder, image(20))).spans[0]!.length, 20)
  t.equal(warnings().length, 1, 'when it starts again, too')
  const missing = new FileEncoder({ ...options, modelPath: 'missing' }, logger, clock, entry)
  t.teardown(() => missing.dispose())
  await t.rejects(missing.open(), { message: /missing cannot be read/ })
  t.equal(warnings().length, 1)
})

t.test('an image becomes tokens and ids of its own, and is kept', async (t) => {
  const { encoder } = await open(t)
  const [one, other] = [await encode(encoder, image(20)), await encode(encoder, image(21))]
  t.equal(await encode(encoder, image(20)), one)
  t.equal(one.tokens.length, 22)
  t.same([one.tokens[0], one.tokens.at(-1)], [7, 8])
  t.match(one.spans, [{ start: 1, length: 20 }])
  const ids = one.tokens.slice(1, -1)
  t.ok(ids.every((id) => id >= 100 && id <= 0x7fff_ffff))
  t.equal(new Set([...ids, ...other.tokens.slice(1, -1)]).size, 41, 'no id is of both')
  for (let width = 100; width < 110; width++) await encode(encoder, image(width))
  const again = await encode(encoder, image(20))
  t.not(again, one, 'what is not used makes way')
  t.same(again.tokens, one.tokens, 'its ids are the same again')
  const sound = { type: 'audio' as const, data: 'UklGRg==' }
  await t.rejects(encode(encoder, sound), { code: 'unsupported', message: /for image, not audio/ })
  const { encoder: hears } = await open(t, 'model.gguf', 'hears.gguf')
  await encode(hears, image(20))
  const asSound = encode(hears, { ...image(20), type: 'audio' })
  await t.rejects(asSound, { code: 'invalid_media', message: /expected a WAV/ })
})

t.test('the ids of an image are known before its vectors', async (t) => {
  const { encoder } = await open(t)
  const known: EncodedMedia[] = []
  const prepared = await encoder.prepare(image(20), '')
  if (!('run' in prepared)) return t.fail('it is new')
  const { signal } = new AbortController()
  const { tokens, spans } = await prepared.run(signal, (counted) => void known.push(counted))
  t.equal(known.length, 1)
  t.same(known[0]?.tokens, tokens)
  t.same(known[0]?.spans, [{ ...spans[0], vectors: new Float32Array() }])
})

const hasMemoryFolder = existsSync('/dev/shm')
t.test('vectors come in a file, or with the message', { skip: !hasMemoryFolder }, async (t) => {
  const { encoder } = await open(t)
  const { spans } = await encode(encoder, image(17))
  t.equal(spans.length, 2)
  for (const { vectors } of spans) t.same(vectors, new Float32Array(17 * 4).fill(17))
  const file = openFiles(encoder.pid!).find((name) => name.endsWith('vectors (deleted)'))
  t.ok(file, 'one without a name')
  t.notOk(existsSync(file!.replace('/vectors (deleted)', '')), 'nor a folder')
  const bytes = () => statSync(`/proc/${encoder.pid}/fd/4`).size
  t.equal(bytes(), 0, 'what was read takes no memory')
  await t.rejects(encode(encoder, image(14)), { code: 'invalid_media' })
  t.equal(bytes(), 0, 'nor what was written before an encoding failed')
  await encoder.dispose()
  await until(() => !openFiles(process.pid).includes(file!))
})

/** Where a system has `/proc`. */
const openFiles = (pid: number): string[] =>
  attempt(() => readdirSync(`/proc/${pid}/fd`), []).map((fd) =>
    attempt(() => readlinkSync(`/proc/${pid}/fd/${fd}`), ''),
  )

t.test('what was encoded for one scope is not found in another', async (t) => {
  const { encoder } = await open(t)
  const isFound = async (scope?: string) => 'spans' in (await encoder.prepare(image(20), scope))
  await encode(encoder, image(20), 'one')
  t.same([await isFound('one'), await isFound('other'), await isFound('')], [true, false, false])
  await encode(encoder, image(20), undefined)
  t.notOk(await isFound(undefined), 'without a scope nothing is kept')
  const [job, same, apart] = await Promise.all([
    encoder.prepare(image(30, 20), 'one'),
    encoder.prepare(image(30, 20), 'one'),
    encoder.prepare(image(30, 20), 'other'),
  ])
  if (!('run' in job && 'run' in same && 'run' in apart)) return t.fail('they were not kept')
  t.equal(job.size, 0.0006, 'millions of pixels')
  t.same([job.key === same.key, job.key === apart.key], [true, false])
})

/** Resolves when the process has what is stopped by the signal. */
const isSent = async (signal: AbortSignal) =>
  await until(() => getEventListeners(signal, 'abort').length > 0)

function isGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0)
  } catch {
    return true
  }
}

/** A folder's files, which several processes have. */
function filesInMemory() {
  const all = new Map<string, FoundState>()
  const nameOf = ({ key, scope, partial, tokens }: StateHead) =>
    JSON.stringify([key, scope, partial, tokens])
  const files: StateFiles = {
    limitBytes: Infinity,
    list: async () => [],
    read: async () => undefined,
    find: async (head) => all.get(nameOf(head)),
    write: async (head, data) => {
      const file = { ...head, name: nameOf(head), bytes: data.length }
      all.set(file.name, { ...file, data: data.slice(), usedAt: 0 })
      return file
    },
    touch: async () => {},
    remove: async ({ name }) => void all.delete(name),
  }
  return { all, files }
}

t.test('what was encoded is found by other processes with the same projector', async (t) => {
  const folder = t.testdir({ model: 'weights', a: 'projector', b: 'another' })
  const { all, files } = filesInMemory()
  const start = async (projector: string, atOnce = 64) => {
    const { encoder, options } = await open(t, join(folder, 'model'), join(folder, projector))
    Object.assign(options, { atOnce })
    encoder.keepIn(files)
    return encoder
  }
  const isFound = async (encoder: FileEncoder, width: number) =>
    'spans' in (await encoder.prepare(image(width), ''))
  const [first, second] = [await start('a'), await start('a')]
  t.notOk(await isFound(second, 20))
  const [one, two] = [await encode(first, image(20)), await encode(first, image(30))]
  await first.dispose()
  t.equal(all.size, 2)
  t.ok(await isFound(second, 20), 'although it began before')
  t.same(await encode(second, image(20)), one)
  t.same(await encode(second, image(30)), two)
  await second.dispose()
  t.equal(all.size, 2, 'they were read')
  const found = [...all.values()][0]!
  all.set(found.name, { ...found, data: found.data.slice(0, 50) })
  const third = await start('a')
  t.same(await encode(third, image(20)), one, 'encoded again where the file is damaged')
  t.notOk(await isFound(await start('b'), 30), 'not those of another projector')
})

t.test('an image that is read as a whole is refused where a pass has fewer tokens', async (t) => {
  const { encoder, options } = await open(t)
  t.match((await encode(encoder, image(12))).spans, [{ length: 12, shape: { isWhole: true } }])
  Object.assign(options, { atOnce: 11 })
  const refused = { code: 'unsupported', message: /12 tokens: expected a batch_size of/ }
  await t.rejects(encode(encoder, image(12)), refused, 'if it is known, too')
  await t.rejects(encode(encoder, { ...image(24), detail: 'low' }), refused)
  t.equal((await encode(encoder, image(20))).spans[0]!.length, 20, 'others come in pieces')
})

t.test('an image that ends the process costs itself alone', async (t) => {
  const { encoder, logger } = await open(t)
  t.equal((await encode(encoder, image(6))).tokens.length, 8)
  const fatal = { code: 'backend_failed', message: /ended twice while/ }
  await t.rejects(encode(encoder, image(13)), fatal)
  t.match(logger.lines, [{ level: 'warn', message: /starts again/ }])
  t.equal((await encode(encoder, image(5))).tokens.length, 7)
  await t.rejects(encode(encoder, image(14)), { code: 'invalid_media', message: /unreadable/ })
})

t.test('a process that cannot be killed holds up no other file', async (t) => {
  const { encoder, logger, clock, pass } = await open(t)
  const { pid } = encoder
  const kill = t.intercept(ChildProcess.prototype, 'kill', { value: () => true })
  const stop = new AbortController()
  const message = 'it took too long'
  const silent = t.rejects(encode(encoder, image(15), '', stop.signal), { message })
  await isSent(stop.signal)
  stop.abort(new CllmError('backend_failed', message))
  await pass(10_000)
  await silent
  kill.restore()
  t.notOk(isGone(pid!))
  t.match(logger.lines, [{ level: 'error', message: /cannot be killed/ }, { level: 'warn' }])
  t.equal((await encode(encoder, image(5))).tokens.length, 7)
  const other = encoder.pid
  process.kill(pid!, 'SIGKILL')
  await until(() => isGone(pid!))
  t.equal((await encode(encoder, image(6))).tokens.length, 8)
  t.same([encoder.pid, logger.lines.length, clock.nextTimer()], [other, 2, undefined])
})

t.test('a process that cannot be started again is tried again for the next image', async (t) => {
  const { encoder, options, clock, pass } = await open(t)
  options.modelPath = 'slow'
  for (const width of [13, 5]) {
    const [stuck] = [encode(encoder, image(width)), await pass(300_000)]
    await t.rejects(stuck, { code: 'backend_failed', message: /not ready after 300 s/ })
  }
  const killed = encode(encoder, image(6))
  await until(() => clock.nextTimer() !== undefined)
  options.modelPath = 'model.gguf'
  process.kill(encoder.pid!, 'SIGKILL')
  t.equal((await killed).tokens.length, 8, 'at once where somebody has killed it')
  process.kill(encoder.pid!, 'SIGKILL')
  options.modelPath = 'too long for an argument'.repeat(1e6)
  await t.rejects(encode(encoder, image(5)), { code: 'backend_failed', message: /spawn/ })
  // As Node does where no more files can be open; its types leave this out.
  const spawn = t.intercept(ChildProcess.prototype, 'spawn' as 'kill', {
    value(this: ChildProcess) {
      process.nextTick(() => this.emit('error', new Error('spawn EMFILE')))
    },
  })
  const before = openFiles(process.pid)
  await t.rejects(encode(encoder, image(5)), { code: 'backend_failed', message: /EMFILE/ })
  const left = openFiles(process.pid).filter((name) => !before.includes(name))
  t.same(
    left.filter((name) => name.includes('/vectors')),
    [],
    'without a process there is no file',
  )
  spawn.restore()
  options.modelPath = 'model.gguf'
  t.equal((await encode(encoder, image(5))).tokens.length, 7)
})

t.test('stopped, it ends its process, and a new one is there for the next image', async (t) => {
  const { encoder } = await open(t)
  const { pid } = encoder
  const stop = new AbortController()
  const unwanted = encode(encoder, image(15), '', stop.signal)
  await isSent(stop.signal)
  stop.abort(new CllmError('cancelled', 'nobody waits'))
  await t.rejects(unwanted, { code: 'cancelled' })
  t.ok(isGone(pid!))
  t.not(encoder.pid, pid)
  const known = new AbortController()
  const next = await encode(encoder, image(5), '', known.signal)
  t.equal(next.tokens.length, 7)
  const again = encoder.pid
  known.abort()
  await encode(encoder, image(6))
  t.equal(encoder.pid, again, 'what is done is not stopped')
  await t.rejects(encode(encoder, image(7), '', stop.signal), { code: 'cancelled' })
})

t.test('closed, it answers what it has, and starts no process again', async (t) => {
  const { encoder, clock } = await open(t)
  const { pid } = encoder
  const stop = new AbortController()
  const waiting = encode(encoder, image(15), '', stop.signal)
  await isSent(stop.signal)
  const closed = encoder.dispose()
  await t.rejects(waiting, { code: 'shutting_down' })
  await closed
  t.equal(clock.nextTimer(), undefined)
  await until(() => isGone(pid!))
  await t.rejects(encode(encoder, image(5)), { code: 'shutting_down' })
  t.equal(encoder.pid, pid)
})

t.test('its process ends with the one that started it, whatever its threads do', async (t) => {
  const busy = `import { pbkdf2 } from 'node:crypto'
    pbkdf2('a', 'b', 1e7, 64, 'sha512', () => {})
    const send = process.send.bind(process)
    process.send = () => true
    process.on('newListener', (name) => name === 'disconnect' && setImmediate(send, 'busy'))`
  const preload = `data:text/javascript,${encodeURIComponent(busy)}`
  const process = new URL('../../src/media/encoder-process.js', import.meta.url)
  const child = fork(process, ['{}'], { execArgv: [...execArgv, '--import', preload] })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child, 'message')
  child.disconnect()
  t.same(await once(child, 'exit'), [null, 'SIGKILL'])
})

t.test('closed while its process starts, it waits for nothing', async (t) => {
  const { encoder } = make(t, 'slow')
  const opening = encoder.open()
  await Promise.all([t.rejects(opening, { code: 'shutting_down' }), encoder.dispose()])
})

t.test('what is missing is said at the start', async (t) => {
  process.execArgv = execArgv
  const missing = { code: 'invalid_configuration', message: /missing cannot be read/ }
  await t.rejects(open(t, 'missing'), missing)
  const unbuilt = { code: 'invalid_configuration', message: /cllm native build/ }
  await t.rejects(openTiny(t, { mmprojPath: 'mmproj.gguf' }), unbuilt)
  const library = { mmprojPath: 'mmproj.gguf', mediaLibrary: '/nowhere/libmtmd.so' }
  await t.rejects(openTiny(t, library), { code: 'invalid_configuration', message: /nowhere/ })
  for (const given of [{ mmprojPath: 'mmproj.gguf' }, library]) {
    const logger = recordingLogger()
    const backend = await openTiny(t, { ...given, mmprojOptional: true }, logger)
    t.equal(backend.media, undefined, 'it may be left out')
    t.match(
      logger.lines.find(({ level }) => level === 'warn'),
      {
        level: 'warn',
        message: /images and sounds are refused: .*(build|nowhere)/,
      },
    )
  }
})
