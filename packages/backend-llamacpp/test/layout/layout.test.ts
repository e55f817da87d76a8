import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type BatchItem, systemClock } from '@cllm/core'
import { array, assert, asyncProperty, constantFrom, integer, property, record } from 'fast-check'
import t, { type Test } from 'tap'
import { createLlamaCppBackend } from '../../src/create-llamacpp-backend.js'
import { chooseLayout, type ShapeCost } from '../../src/layout/choose-layout.js'
import { type LayoutNotes, readNotes, writeNotes } from '../../src/layout/layout-file.js'
import { LoadJournal } from '../../src/layout/load-journal.js'
import { type Load, LoadRecord } from '../../src/layout/load-record.js'
import { roundShape, type StepShape } from '../../src/layout/step-shape.js'
import type { LlamaCppOptions } from '../../src/llamacpp-options.js'
import { generate, type LogLine, recordingLogger, tinyModel } from '../open-tiny.js'
import { writeTinyModel } from '../tiny-models.js'

const decode = (slot: number, position: number): BatchItem => ({
  slot,
  position,
  tokens: [1],
  outputs: [],
})
const chunk = (slot: number, position: number, count: number): BatchItem => ({
  slot,
  position,
  tokens: Array.from({ length: count }, () => 1),
  outputs: [],
})
const shape = (sequences: number, context: number, chunk = 0): StepShape => {
  return { sequences, context, chunk }
}
const load = (...counts: readonly (readonly [StepShape, number])[]): Load => {
  return { counts: counts.map(([shape, steps]) => ({ shape, steps })), shifts: false }
}

t.test('shapes are powers of two that are next to their numbers', async (t) => {
  t.same(roundShape(shape(5, 1000, 48)), shape(4, 1024, 64))
  t.same(roundShape(shape(1, 3)), shape(1, 64))
  assert(
    property(integer({ min: 1, max: 512 }), integer({ min: 0, max: 100_000 }), (count, context) => {
      const rounded = roundShape(shape(count, context, count))
      const isClose = rounded.sequences <= 1.5 * count && rounded.sequences >= count / 1.5
      return isClose && JSON.stringify(roundShape(rounded)) === JSON.stringify(rounded)
    }),
  )
})

t.test('prompts and the decodes after them count as one step', async (t) => {
  const apart = new LoadRecord()
  apart.took([chunk(2, 0, 60)])
  apart.took([decode(0, 100), decode(1, 156)])
  apart.took([decode(0, 101), decode(1, 157)])
  const together = new LoadRecord()
  together.took([decode(0, 100), decode(1, 156), chunk(2, 0, 60)])
  together.took([decode(0, 101), decode(1, 157)])
  t.same(apart.load, together.load)
  t.same(apart.load, load([shape(2, 128, 64), 1], [shape(2, 128), 1]))

  const prompts = new LoadRecord()
  for (const position of [0, 512, 1024]) prompts.took([chunk(0, position, 512)])
  t.same(prompts.load, load([shape(0, 64, 512), 1], [shape(0, 512, 512), 1]))
})

t.test('drafts count as tokens of other sequences would', async (t) => {
  const record = new LoadRecord()
  record.took([{ ...chunk(0, 100, 4), drafts: 3 }])
  t.same(record.load, load([shape(4, 128), 1]))
})

t.test('a record goes on where another one ended', async (t) => {
  const first = new LoadRecord()
  first.took([decode(0, 100)])
  first.shifted()
  const second = new LoadRecord(first.load)
  second.took([decode(0, 110)])
  t.same(second.load, { ...load([shape(1, 128), 2]), shifts: true })
})

t.test('the layout that takes less time for the load', async (t) => {
  const measured: string[] = []
  const measure = async (layout: string, shapes: readonly StepShape[]) => {
    measured.push(...shapes.map(({ context }) => `${layout} ${context}`))
    // The pool is better for short sequences, and worse for long ones.
    return shapes.map(({ context }) => (layout === 'own' ? 100 : 50 + context / 8))
  }
  const short = load([shape(8, 64), 900], [shape(8, 1024), 100])
  const long = load([shape(8, 64), 100], [shape(8, 1024), 900])
  const choose = (load: Load, current: 'own' | 'pool', known: readonly ShapeCost[] = [], now = 0) =>
    chooseLayout(load, current, known, now, measure)

  const chosen = await choose(short, 'own')
  t.equal(chosen.layout, 'pool')
  t.equal(chosen.ratio, (900 * 58 + 100 * 178) / 100_000)
  t.same(measured.splice(0), ['own 64', 'own 1024', 'pool 64', 'pool 1024'])
  t.equal((await choose(long, 'pool', chosen.costs)).layout, 'own')
  t.same(measured.splice(0), [], 'costs are known')
  await choose(long, 'pool', chosen.costs, 25 * 3600 * 1000)
  t.equal(measured.splice(0).length, 4, 'for a day')

  t.same(await choose(load([shape(8, 64), 100]), 'own'), { layout: 'own', costs: [] })
  t.same(await choose(load([shape(8, 64), 100]), 'pool'), { layout: 'pool', costs: [] })
  t.same(await choose({ ...short, shifts: true }, 'pool'), { layout: 'own', costs: [] })
  t.same(measured, [], 'too little is known, or there is no choice')
})

t.test('a layout stays unless the other one is clearly better', async (t) => {
  const of = (own: number, pool: number, current: 'own' | 'pool') =>
    chooseLayout(load([shape(1, 64), 1000]), current, [], 0, async (layout) => [
      layout === 'own' ? own : pool,
    ])
  t.equal((await of(100, 96, 'own')).layout, 'own')
  t.equal((await of(100, 94, 'own')).layout, 'pool')
  t.equal((await of(96, 100, 'pool')).layout, 'pool')
  t.equal((await of(94, 100, 'pool')).layout, 'own')
})

t.test('of many shapes, those of most tokens are measured', async (t) => {
  const counted = record({
    shape: record({
      sequences: constantFrom(1, 2, 4, 8, 16),
      context: constantFrom(64, 128, 256, 512),
      chunk: constantFrom(0, 64),
    }),
    steps: integer({ min: 1, max: 1000 }),
  })
  const holds = assert(
    asyncProperty(array(counted, { minLength: 1 }), async (counts) => {
      const { load } = new LoadRecord({ counts, shifts: false })
      const tokens = ({ sequences, chunk }: StepShape, steps: number) => steps * (sequences + chunk)
      const all = load.counts.map(({ shape, steps }) => tokens(shape, steps)).sort((a, b) => b - a)
      let most = Infinity
      await chooseLayout(load, 'own', [], 0, async (_, shapes) => {
        const chosen = load.counts.filter(({ shape }) => shapes.includes(shape))
        most = Math.min(...chosen.map(({ shape, steps }) => tokens(shape, steps)))
        return shapes.map(() => 1)
      })
      return most === Infinity || most === all[Math.min(all.length, 6) - 1]
    }),
  )
  await t.resolves(holds)
})

t.test('notes are kept in a file', async (t) => {
  const path = join(t.testdir(), 'folder', 'notes.json')
  t.equal(await readNotes(path), undefined)
  const notes: LayoutNotes = {
    load: load([shape(1, 64), 5]),
    layout: 'pool',
    costs: [{ shape: shape(1, 64), own: 2, pool: 1, at: 3 }],
  }
  await writeNotes(path, notes)
  await writeNotes(path, notes)
  t.same(await readNotes(path), notes)
  t.same(readdirSync(join(path, '..')), ['notes.json'], 'nothing else is left')
  writeFileSync(path, '{"load":')
  await t.rejects(readNotes(path), SyntaxError)
  writeFileSync(path, '{"layout":"both"}')
  await t.rejects(readNotes(path), /expected/i)
})

t.test('a journal is written now and then, and at the end', async (t) => {
  const written: Load[] = []
  const journal = new LoadJournal(new LoadRecord(), async (load) => void written.push(load))
  for (let step = 0; step < 1500; step++) journal.took([decode(0, 10)])
  await journal.close()
  t.same(
    written.map(({ counts: [count] }) => count?.steps),
    [1000, 1500],
  )
  const idle = new LoadJournal(new LoadRecord(), async () => {
    t.fail('there is nothing to write')
  })
  await idle.close()
})

/** A model that computes `load`, loaded and disposed of again. */
async function serve(t: Test, options: LlamaCppOptions, layouts: string, tokens = 260) {
  const lines: LogLine[] = []
  const logger = recordingLogger(lines)
  const backend = await createLlamaCppBackend(
    { slots: 4, contextSize: 512, batchSize: 64, threads: 1, gpu: 'off', ...options },
    { clock: systemClock, logger, layouts },
  )
  const prompt = Array.from({ length: 20 }, (_, index) => 5 + index)
  const requests = [0, 1, 2].map((slot) => ({ slot, tokens: prompt, count: tokens }))
  const drawn = await generate(backend, requests)
  await backend.dispose()
  t.same(drawn[0], drawn[1], 'each with the same seed')
  return { lines: lines.map(({ message }) => message), model: backend.model }
}

t.test('a model is loaded with the layout that its load before was measured to want', async (t) => {
  const modelPath = await tinyModel(t, 'llama')
  const layouts = join(dirname(modelPath), 'layouts')
  const options = { modelPath, kvUnified: 'measured' as const }
  const first = await serve(t, options, layouts)
  t.equal(first.model.details?.['kvUnified'], false)
  t.ok(first.lines.includes('KV cells for each slot'))

  const second = await serve(t, options, layouts)
  const [file = ''] = readdirSync(layouts)
  const path = join(layouts, file)
  const { layout, costs, load: counted } = JSON.parse(readFileSync(path, 'utf8')) as LayoutNotes
  t.ok(costs.length > 0)
  t.ok(costs.every(({ own, pool }) => own > 0 && pool > 0))
  t.equal(second.model.details?.['kvUnified'], layout === 'pool')
  t.match(second.lines.join('\n'), /the steps of its load take \d\.\d\d of what the other/)
  t.match(counted.counts, [{ shape: { chunk: 0 } }])

  const cheap = (layout: 'own' | 'pool') =>
    costs.map((cost) => ({ ...cost, own: 2, pool: 2, [layout]: 1, at: systemClock.now() }))
  for (const layout of ['pool', 'own'] as const) {
    await writeNotes(path, { load: counted, layout: 'own', costs: cheap(layout) })
    const { model } = await serve(t, options, layouts)
    t.equal(model.details?.['kvUnified'], layout === 'pool')
  }

  writeFileSync(path, 'broken')
  const anew = await serve(t, options, layouts, 10)
  t.ok(anew.lines.includes('the notes on KV layouts cannot be read and begin anew'))
  t.equal(anew.model.details?.['kvUnified'], false)
  t.equal((await readNotes(path))?.layout, 'own')
})

t.test('where there is nothing to choose, nothing is kept', async (t) => {
  const modelPath = await tinyModel(t, 'llama')
  const window = join(dirname(modelPath), 'gemma3.gguf')
  await writeTinyModel(window, 'gemma3')
  const layouts = join(dirname(modelPath), 'layouts')
  for (const options of [
    { modelPath },
    { modelPath, kvUnified: 'on' as const },
    { modelPath, kvUnified: 'off' as const },
    { modelPath: window, kvUnified: 'measured' as const },
  ]) {
    await serve(t, options, layouts, 2)
  }
  t.throws(() => readdirSync(layouts), { code: 'ENOENT' })
})

t.test('a folder that cannot be written costs a warning', async (t) => {
  const modelPath = await tinyModel(t, 'llama')
  const { lines } = await serve(t, { modelPath, kvUnified: 'measured' }, modelPath, 2)
  t.ok(lines.includes('the notes on KV layouts cannot be written'))
})
