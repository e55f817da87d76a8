import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rename, rm, rmdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Logger, silentLogger, SimulatedClock, systemRandom } from '@cllm/core'
import { overriding } from '@cllm/host'
import type { BatchObject } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { BatchFolder } from '../../../src/protocols/batches/batch-folder.js'
import {
  isUnderWay,
  keyIsGone,
  newId,
  outputIds,
} from '../../../src/protocols/batches/batch-objects.js'
import { BatchRunner } from '../../../src/protocols/batches/batch-runner.js'
import { openFolder } from '../../../src/protocols/batches/folder-queue.js'
import type { BatchLine, SendLine } from '../../../src/protocols/batches/batch-lines.js'
import { eachWrite, madePipe, until } from '../../serve.js'

const endpoint = '/v1/chat/completions'
const lineOf = (index: number, body = '{}') =>
  `{"custom_id":"line-${index}","method":"POST","url":"${endpoint}","body":${body}}`
const linesOf = (count: number) => Array.from({ length: count }, (_, index) => lineOf(index))
const fileOf = (id: string) =>
  ({ id, object: 'file', bytes: 0, created_at: 1, filename: 'a', purpose: 'batch' }) as const

interface Setting {
  readonly path?: string
  readonly now?: number
  readonly send?: SendLine
  /** Throws where a method of the folder fails. */
  readonly before?: (method: string) => void | Promise<void>
  readonly isHeld?: () => boolean
}

/** Runs batches of a folder, some methods of which fail. */
async function running(
  t: Test,
  { path = t.testdir({}), now = 1000, send, before, isHeld = () => true }: Setting = {},
) {
  const folder = new BatchFolder(path)
  const checked = (method: 'append' | 'update' | 'sizeOf' | 'get') => ({
    [method]: async (...given: unknown[]) => {
      await before?.(method)
      return await (folder[method] as (...given: unknown[]) => Promise<unknown>)(...given)
    },
  })
  const failing: Partial<BatchFolder> = Object.assign(
    {},
    ...(['append', 'update', 'sizeOf', 'get'] as const).map(checked),
  )
  const clock = new SimulatedClock(now)
  const asked: string[] = []
  const log: string[] = []
  const note = (_: object, message: string) => log.push(message)
  const logger: Logger = { debug: note, info: note, warn: note, error: note }
  const hold = async () => ({ lost: new AbortController().signal, isHeld })
  const runner = new BatchRunner({
    ...openFolder(overriding(folder, failing), { clock, logger, hold }),
    clock,
    random: systemRandom,
    logger,
    concurrency: 3,
    send: async (line, ...more) => {
      asked.push(line.custom_id)
      return (await send?.(line, ...more)) ?? { status: 200, body: 'fine', retryAfter: undefined }
    },
  })
  await runner.resume()
  const create = async (lines: readonly string[], starts = true): Promise<string> => {
    const [input, id] = [newId('file-', systemRandom), newId('batch_', systemRandom)]
    await folder.create({ object: fileOf(input) }, Buffer.from(lines.join('\n')))
    const object = { id, object: 'batch', endpoint, input_file_id: input, status: 'validating' }
    const times = { created_at: 1, expires_at: 86_401, request_counts: {} }
    await folder.put('batches', { object: { ...object, ...times } as unknown as BatchObject })
    if (starts) await runner.start(id)
    return id
  }
  const batch = async (id: string) => (await folder.get('batches', id))!.object
  /** The batch when it has ended, in no more than some seconds. */
  const ended = async (id: string, seconds = 60): Promise<BatchObject> => {
    await until(async () => {
      if (!isUnderWay(await batch(id))) return true
      if (clock.now() < 1000 * seconds) clock.advance(100)
      return false
    })
    return await batch(id)
  }
  const answers = async (file: string | null) => {
    const ids: string[] = []
    for await (const { text } of folder.lines(file ?? '')) {
      ids.push((JSON.parse(text) as { custom_id: string }).custom_id)
    }
    return ids.sort()
  }
  return { folder, clock, runner, asked, log, create, batch, ended, answers }
}

const full = () => {
  throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC', errno: -28 })
}

t.test('a batch outlives a moment without space on the disk', async (t) => {
  for (const method of ['append', 'update', 'sizeOf', 'get']) {
    let calls = 0
    const before = (called: string) => void (called === method && calls++ < 3 && full())
    const { create, ended, answers, asked, log } = await running(t, { before })
    const done = await ended(await create(linesOf(6)))
    t.match(done, { status: 'completed', request_counts: { total: 6, completed: 6 } }, method)
    t.same(
      await answers(done.output_file_id),
      linesOf(6).map((_, index) => `line-${index}`),
    )
    t.equal(asked.length, 6, 'no line is computed twice')
    t.ok(log.length > 0 && log.length <= 3, log.join())
  }
})

t.test('where nothing can be written, a batch can be cancelled, and expires', async (t) => {
  const before = (method: string) => void (method === 'append' && full())
  const { runner, clock, ...others } = await running(t, { before })
  const { create, ended, log } = others
  const id = await create(linesOf(6))
  await until(() => log.length > 0)
  await runner.cancel(id, keyIsGone)
  await runner.cancel(id)
  const cancelled = { status: 'cancelled', errors: keyIsGone, request_counts: { completed: 0 } }
  t.match(await ended(id), cancelled, 'with the first reason')
  const logged = log.length
  clock.aheadMs = 3_600_000 // the machine slept for an hour
  const left = await create(linesOf(6))
  // its end by time is planned before its first line
  await until(() => log.length > logged)
  clock.advance(82_800_000)
  t.match(await ended(left), { status: 'expired', expired_at: 86_401 })
})

t.test('no line begins while its batch expires', async (t) => {
  const send: SendLine = async (_line, _owner, left) => {
    if (asked.length <= 3) await once(left, 'abort')
    return { status: 200, body: 'fine', retryAfter: undefined }
  }
  const { create, clock, ended, folder, asked } = await running(t, { send })
  const id = await create(linesOf(30))
  await until(() => asked.length === 3)
  clock.advance(86_400_000)
  const counts = { total: 30, completed: 0, failed: 0 }
  t.match(await ended(id), { status: 'expired', output_file_id: null, request_counts: counts })
  t.equal(asked.length, 3)
  const hold = async () => ({ lost: new AbortController().signal, isHeld: () => true })
  const { answers } = openFolder(folder, { clock, logger: silentLogger, hold })
  const late = { line: 4, ...(JSON.parse(lineOf(3)) as BatchLine) }
  t.equal(await answers.add(id, late, 'completed', {}), 'closed')
  await t.rejects(folder.sizeOf(outputIds(id).completed), { code: 'not_found' })
})

t.test('a batch that is cancelled twice was cancelled when it was first', async (t) => {
  let leave = () => {}
  const send: SendLine = async () => {
    await new Promise<void>((resolve) => (leave = resolve))
    return { status: 200, body: 'fine', retryAfter: undefined }
  }
  const { create, clock, runner, ended, asked } = await running(t, { send })
  const id = await create(linesOf(1))
  await until(() => asked.length === 1)
  await runner.cancel(id)
  clock.advance(5000)
  t.match(await runner.cancel(id), { wasUnderWay: true, batch: { cancelling_at: 1 } })
  leave()
  t.match(await ended(id), { status: 'cancelled', cancelling_at: 1, cancelled_at: 6 })
})

t.test('a line that is left is no failure', async (t) => {
  let signal: AbortSignal | undefined
  const send: SendLine = async (_line, _owner, left) => {
    signal = left
    await once(left, 'abort')
    throw left.reason
  }
  const { create, runner, ended, log } = await running(t, { send })
  const id = await create(linesOf(1))
  await until(() => signal !== undefined)
  await runner.cancel(id)
  t.match(await ended(id), { status: 'cancelled', request_counts: { failed: 0 } })
  t.same(log, [])
})

t.test('lines whose engine is away hold up no others', async (t) => {
  const send: SendLine = async ({ body }) =>
    'model' in body
      ? { status: 503, body: null, retryAfter: 1 }
      : { status: 200, body: 'fine', retryAfter: undefined }
  const { create, batch, clock, runner, ended } = await running(t, { send })
  const away = Array.from({ length: 6 }, (_, index) => lineOf(index, '{"model":"away"}'))
  const id = await create([...away, lineOf(6)])
  const other = await create([lineOf(0)])
  t.match(await ended(other), { status: 'completed' })
  t.match(await runner.live(await batch(id)), { request_counts: { total: 7, completed: 1 } })
  t.ok(clock.now() < 10_000, 'within seconds')
})

t.test('an answer that is left while it is written is no failure', async (t) => {
  let fail: ((error: Error) => void) | undefined
  const before = async (method: string) => {
    if (method === 'append') await new Promise((_, reject) => (fail = reject))
  }
  const { create, runner, ended, log } = await running(t, { before })
  const id = await create(linesOf(1))
  await until(() => fail !== undefined)
  await runner.cancel(id)
  fail?.(new Error('the folder is closed'))
  t.match(await ended(id), { status: 'cancelled', request_counts: { failed: 0 } })
  t.same(log, [])
})

t.test('a line that fails is one line that fails', async (t) => {
  const send: SendLine = async (line) => {
    if (line.custom_id === 'line-1') throw new Error('a defect')
    return { status: 200, body: 'fine', retryAfter: undefined }
  }
  const { create, ended, folder } = await running(t, { send })
  const done = await ended(await create([`\ufeff${lineOf(0)}`, lineOf(1)]))
  t.match(done, { status: 'completed', request_counts: { completed: 1, failed: 1 } })
  const answers: Record<string, object> = {}
  for await (const { text } of folder.lines(done.error_file_id!)) {
    const { custom_id: id, response } = JSON.parse(text) as { custom_id: string; response: object }
    answers[id] = response
  }
  t.match(answers, {
    'line-1': { status_code: 500, body: { error: { code: 'internal' } } },
  })
})

t.test('a line that would take long to be parsed is not', async (t) => {
  const { create, ended } = await running(t)
  const nested = (levels: number) => `{"x":${'['.repeat(levels)}${']'.repeat(levels)}}`
  const lines = [nested(99), nested(100), `{"x":[${'{},'.repeat(2 ** 20)}{}]}`]
  const id = await create([...lines.map((body, index) => lineOf(index, body)), '['.repeat(5e6)])
  t.match(await ended(id), {
    status: 'failed',
    errors: {
      data: [
        { line: 2, message: /at most 101 levels/ },
        { line: 3, message: /at most 1048576 values/ },
        { line: 4, message: /at most 101 levels/ },
      ],
    },
  })
})

t.test('what is held for a line is given back when the line ends', async (t) => {
  const signals: AbortSignal[] = []
  const send: SendLine = async (_line, _owner, signal) => {
    signals.push(signal)
    return { status: 200, body: 'fine', retryAfter: undefined }
  }
  const { create, ended, answers } = await running(t, { send })
  const done = await ended(await create(linesOf(3)))
  t.equal((await answers(done.output_file_id)).length, 3)
  t.same(
    signals.map(({ aborted }) => aborted),
    [true, true, true],
  )
})

t.test('a line that is no JSON does not stop a batch from going on', async (t) => {
  const path = t.testdir({})
  const first = await running(t, { path })
  const id = await first.create(linesOf(4))
  const { output_file_id: output } = await first.ended(id)
  const file = first.folder.contentOf(output!)
  const [one, ...more] = (await readFile(file, 'utf8')).split('\n')
  await writeFile(file, [one, one?.slice(0, 20) + more[0]!, ...more.slice(1)].join('\n'))
  await first.folder.update(id, () => ({ status: 'in_progress', output_file_id: null }))
  const second = await running(t, { path })
  t.match(await second.ended(id), { status: 'completed', request_counts: { completed: 4 } })
  t.equal(second.asked.length, 1)
})

t.test('other ends of lines may stand within a line', async (t) => {
  const path = t.testdir({})
  const body = { messages: 'a\u2028b\u2029c\u0085d' }
  const send: SendLine = async () => ({ status: 200, body, retryAfter: undefined })
  const first = await running(t, { path, send })
  const lines = [0, 1].map((index) => lineOf(index, JSON.stringify(body)))
  const id = await first.create([`${lines[0]}\r`, '', `${lines[1]}`])
  const done = await first.ended(id)
  t.match(done, { status: 'completed', request_counts: { completed: 2 } })
  const read: object[] = []
  for await (const line of first.folder.lines(done.input_file_id)) read.push(line)
  const bytes = Buffer.byteLength(lines[0]!)
  t.same(read, [
    { line: 1, text: lines[0], at: 0, bytes: bytes + 1 },
    { line: 3, text: lines[1], at: bytes + 3, bytes },
  ])
  await first.folder.update(id, () => ({ status: 'in_progress', output_file_id: null }))
  const second = await running(t, { path })
  t.match(await second.ended(id), { status: 'completed' }, 'it is gone on with')
  t.same(second.asked, [])
})

t.test('a server that stood still while another took over writes no line', async (t) => {
  let isOurs = true
  const setting: Setting = {
    send: async (line) => {
      if (line.custom_id === 'line-2') isOurs = false
      return { status: 200, body: 'fine', retryAfter: undefined }
    },
    isHeld: () => isOurs,
  }
  const { create, folder, batch, log } = await running(t, setting)
  const id = await create(linesOf(6))
  await until(() => log.length > 0)
  t.same(new Set(log), new Set(['an answer cannot be written']))
  t.match(await batch(id), { status: 'in_progress' })
  const { completed: good } = outputIds(id)
  for await (const { text } of folder.lines(good)) t.notMatch(text, 'line-2')
})

t.test('what another server of the folder is asked for is done within a minute', async (t) => {
  const path = t.testdir({})
  const answer = { status: 200, body: 'fine', retryAfter: undefined }
  const send: SendLine = async ({ custom_id: id }, _, signal) => {
    if (id === 'line-5') await once(signal, 'abort')
    return answer
  }
  const { create, ended, folder } = await running(t, { path, send })
  const other = await create(linesOf(2), false)
  t.match(await folder.list('batches'), [{ object: { status: 'validating' } }])
  t.match(await ended(other, 70), { status: 'completed' })
  t.match(await folder.list('batches'), [{ object: { status: 'completed' } }])
  const id = await create(linesOf(6))
  await until(async () => (await folder.get('batches', id))?.object.status === 'in_progress')
  await new BatchFolder(path).update(id, () => ({ status: 'cancelling' }))
  t.match(await ended(id, 130), { status: 'cancelled' })
})

t.test('of two servers, none undoes the cancellation that the other has answered', async (t) => {
  const path = t.testdir({})
  const { create, batch, folder: one } = await running(t, { path })
  const cancelled = { status: 'cancelling', cancelling_at: 5 } as const
  for (let round = 0; round < 10; round++) {
    const id = await create(linesOf(1), false)
    const [other, third] = [new BatchFolder(path), new BatchFolder(path)]
    // All read the record before one of them has written it.
    const [first, , again] = await Promise.all([
      one.update(id, () => cancelled),
      other.update(id, () => ({ status: 'in_progress', in_progress_at: 4 })),
      third.update(id, () => cancelled),
    ])
    t.match([first, again], [{ object: cancelled }, { object: cancelled }])
    t.match(await batch(id), { ...cancelled, in_progress_at: 4 })
    await other.update(id, () => ({ status: 'cancelled', cancelled_at: 6 }))
    t.match(await batch(id), { status: 'cancelled', cancelling_at: 5, cancelled_at: 6 })
    await one.remove(id)
  }
  t.same(await readdir(join(path, 'batches')), [])
})

t.test('a folder that is removed is told of', async (t) => {
  const path = t.testdir({})
  const { folder, create, ended } = await running(t, { path })
  const id = await create(linesOf(1))
  await ended(id)
  await rm(path, { recursive: true })
  const gone = { code: 'storage_failed', status: 500, message: /was removed while the server runs/ }
  await t.rejects(folder.get('batches', id), gone)
  await t.rejects(folder.list('files'), gone)
  await t.rejects(folder.append(newId('file-', systemRandom), {}), gone)
  const file = newId('file-', systemRandom)
  await t.rejects(folder.create({ object: fileOf(file) }, Buffer.from('a')), gone)
})

t.test('a list of thousands does not take all file descriptors', async (t) => {
  let [open, most] = [0, 0]
  class Counting extends BatchFolder {
    override async get(...given: Parameters<BatchFolder['get']>): Promise<never> {
      most = Math.max(most, ++open)
      return (await super.get(...given).finally(() => open--)) as never
    }
  }
  const folder = new Counting(t.testdir({}))
  const ids = Array.from({ length: 200 }, () => newId('file-', systemRandom))
  for (const id of ids) await folder.put('files', { object: fileOf(id) })
  t.equal((await folder.list('files')).length, 200)
  t.equal(most, 64)
})

t.test('a file that was listed is not read again', async (t) => {
  const path = t.testdir({})
  const folder = new BatchFolder(path)
  const [one, other] = [newId('file-', systemRandom), newId('file-', systemRandom)]
  const head = join(path, 'files', `${other}.json`)
  const ids = async () => (await folder.list('files')).map(({ object: { id } }) => id)
  for (const id of [one, other]) await folder.create({ object: fileOf(id) }, Buffer.from('a'))
  const good = await readFile(head)
  for (const bad of ['{', 'null', '{"version":9}']) {
    await writeFile(head, bad)
    t.same(await ids(), [one], 'a damaged file costs itself')
    const damaged: string[] = []
    await folder.list('files', ({ message }) => damaged.push(message))
    t.match(damaged, [/files.*cannot be read/])
  }
  await rm(head)
  if (madePipe(head)) {
    t.same(await ids(), [one], 'nobody waits for a pipe')
    await rm(head)
  }
  await writeFile(head, good)
  t.same(new Set(await ids()), new Set([one, other]), 'what could not be read is tried again')
  await writeFile(head, '{')
  t.same(new Set(await ids()), new Set([one, other]))
  await folder.put('files', { object: { ...fileOf(other), created_at: 9e9 } })
  t.same(await ids(), [other, one], 'it was put anew')
  await folder.remove(other)
  t.same(await ids(), [one])
})

t.test('nobody waits for a pipe in place of lines', async (t) => {
  const folder = new BatchFolder(t.testdir({}))
  const [one, other] = [newId('file-', systemRandom), newId('file-', systemRandom)]
  for (const id of [one, other]) await folder.create({ object: fileOf(id) }, Buffer.from('a'))
  await rm(folder.contentOf(one))
  if (!madePipe(folder.contentOf(one))) return
  // Each would hold a thread, and there are four.
  for (let count = 0; count < 4; count++) {
    await t.rejects(folder.textOf(one, { at: 0, bytes: 1 }), /it is no file/)
    await t.rejects(once(folder.content(one), 'readable'), /it is no file/)
    await t.rejects(folder.sizeOf(one), { code: 'not_found' })
  }
  t.equal(await folder.textOf(other, { at: 0, bytes: 1 }), 'a')
})

t.test('a slow disk holds up the line that it writes, and no other work', async (t) => {
  const folder = new BatchFolder(t.testdir({ files: {}, batches: {} }))
  const writes: (() => void)[] = []
  await eachWrite(t, async (write) => {
    await new Promise<void>((resolve) => writes.push(resolve))
    await write()
  })
  const id = newId('file-', systemRandom)
  const appended = [1, 2].map((n) => folder.append(id, { n }))
  for (let count = 0; count < 2; count++) {
    await until(() => writes.length > 0)
    writes.shift()?.()
  }
  await Promise.all(appended)
  t.equal(await readFile(folder.contentOf(id), 'utf8'), '{"n":1}\n{"n":2}\n')
})

t.test('half a line that a full disk has left is cut off before the next', async (t) => {
  const folder = new BatchFolder(t.testdir({ files: {}, batches: {} }))
  const id = newId('file-', systemRandom)
  const path = folder.contentOf(id)
  await folder.append(id, { n: 1 })
  await rename(path, `${path}.away`)
  await mkdir(path)
  await t.rejects(folder.append(id, { n: 2 }))
  await rmdir(path)
  await writeFile(path, '{"n":1}\n{"n"')
  await Promise.all([3, 4].map((n) => folder.append(id, { n })))
  t.equal(await readFile(path, 'utf8'), '{"n":1}\n{"n":3}\n{"n":4}\n')
  // Longer than what is read at once.
  const half = `{"n":"${'x'.repeat(200_000)}`
  for (const whole of ['', '{"n":1}\n', `${half}"}\n`]) {
    await writeFile(path, `${whole}${half}`)
    await folder.mend(id)
    t.ok((await readFile(path, 'utf8')) === whole)
  }
})

t.test('an upload that fails leaves nothing on the disk', async (t) => {
  const path = t.testdir({})
  const id = newId('file-', systemRandom)
  const half = (async function* () {
    yield 'half'
    full()
  })() as unknown as Uint8Array
  const told = { code: 'storage_failed', message: 'The folder for batches fails: ENOSPC' }
  await t.rejects(new BatchFolder(path).create({ object: fileOf(id) }, half), told)
  t.same(await readdir(`${path}/files`), [])
  class WithoutRecords extends BatchFolder {
    override put = async () => full()
  }
  const created = new WithoutRecords(path).create({ object: fileOf(id) }, Buffer.from('a'))
  await t.rejects(created, { code: 'ENOSPC' })
  t.same(await readdir(`${path}/files`), [])
  // A directory in its place: it is written, and cannot be moved there.
  await mkdir(`${path}/files/${id}.json`)
  await t.rejects(new BatchFolder(path).put('files', { object: fileOf(id) }))
  t.same(await readdir(`${path}/files`), [`${id}.json`])
})

t.test('what a crash has left of uploads is removed, and nothing else', async (t) => {
  const path = t.testdir({})
  const first = await running(t, { path })
  const id = await first.create(linesOf(3))
  const { output_file_id: output, input_file_id: input } = await first.ended(id)
  await first.folder.update(id, () => ({ status: 'in_progress', output_file_id: null }))
  const { folder } = first
  // That of the input is gone where a server died which was about to delete it.
  for (const file of [output, input]) {
    await rename(`${path}/files/${file}.json`, `${path}/batches/${file}.away`)
  }
  const [old, fresh] = [newId('file-', systemRandom), newId('file-', systemRandom)]
  await writeFile(folder.contentOf(old), 'half')
  await writeFile(`${path}/files/${old}.json.new`, 'half')
  await writeFile(`${path}/files/${old}.json.${randomUUID()}.new`, 'half')
  await writeFile(folder.contentOf(fresh), 'half')
  const halves = [`${id}.json.${randomUUID()}.new`, `${id}.cancel.${randomUUID()}.new`]
  for (const half of halves) await writeFile(`${path}/batches/${half}`, 'half')
  for (const half of halves) await utimes(`${path}/batches/${half}`, 0, 0)
  const names = await readdir(`${path}/files`)
  for (const name of names) await utimes(`${path}/files/${name}`, 0, 0)
  await utimes(folder.contentOf(fresh), 0, 1000)
  const second = await running(t, { path, now: 4_000_000 })
  t.match(await second.ended(id), { status: 'completed' })
  t.same(second.asked, [], 'its answers are still there')
  t.same(
    await readdir(`${path}/files`),
    [...names.filter((name) => !name.startsWith(old)), `${output}.json`].sort(),
  )
  t.notOk((await readdir(`${path}/batches`)).some((name) => name.endsWith('.new')))
})
