import type { SchedulerState, SequenceView } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'
import { StepGroups, stepsPerTurn } from '../../src/policy/step-groups.js'
import { sequenceOf } from '../sequences.js'

const of = (id: string): SequenceView => {
  const stepGroup = id[0] === '-' ? undefined : id[0]
  return sequenceOf([1], { id, stepGroup })
}

function stateOf(running: string, waiting: string, freeSlots: number): SchedulerState {
  const queued = waiting.split(' ').filter(Boolean).map(of)
  return {
    now: 0,
    running: running.split(' ').filter(Boolean).map(of),
    waiting: Object.assign(queued, { size: queued.length, has: () => true }),
    freeSlots,
    limits: { slots: 8, contextSize: 10, batchSize: 10 },
  }
}

/** The group whose turn it is, with what runs, what it may admit, and what is admitted in all. */
function turn(groups: StepGroups, state: SchedulerState, inGroups = false, isLong = true) {
  for (const view of groups.views(state, state.waiting, inGroups)) {
    groups.ran(view.group, [{ tokens: isLong ? 2 : 1 }])
    const ids = (list: Iterable<SequenceView>) => [...list].map(({ id }) => id).join(' ')
    const running = ids(view.state.running)
    const next = ids(view.next)
    const admit = view.withOthers(next.split(' ').filter(Boolean)).join(' ')
    return { running, next, admit, delayed: ids(view.state.delayed ?? []) }
  }
  return undefined
}

t.test('groups that run take turns, whoever comes and goes', (t) => {
  const groups = new StepGroups()
  const state = stateOf('a1 b1 a2 c1', '', 0)
  const seen = Array.from({ length: 6 }, () => turn(groups, state)?.running)
  t.same(seen, ['a1 a2', 'b1', 'c1', 'a1 a2', 'b1', 'c1'])
  t.equal(turn(groups, state)?.delayed, 'b1 c1')
  // New groups every step: b, which was there before, is not passed over.
  t.equal(turn(groups, stateOf('d1 b1 a1', '', 0))?.running, 'b1')
  t.equal(turn(groups, stateOf('e1 b1 a1', '', 0))?.running, 'a1')
  t.equal(turn(groups, stateOf('f1 b1 a1 e1', '', 0))?.running, 'b1')
  t.equal(turn(groups, stateOf('f1 b1 a1', '', 0))?.running, 'a1')
  t.end()
})

t.test('a turn is a few steps of decoding, or one that computes prompts', async (t) => {
  const groups = new StepGroups()
  const state = stateOf('a1 b1', '', 0)
  const seen = (isLong: boolean) => turn(groups, state, false, isLong)?.running[0]
  t.same(
    Array.from({ length: 9 }, () => seen(false)).join(''),
    'a'.repeat(stepsPerTurn) + 'b'.repeat(stepsPerTurn) + 'a',
  )
  t.equal(seen(true), 'a')
  t.equal(seen(false), 'b', 'the turn has ended with the prompt')

  const names = ['a', 'b', 'c', 'd', 'e']
  const step = fc.record({
    running: fc.subarray(names, { minLength: 1 }),
    idle: fc.subarray(names, { maxLength: 2 }),
    isLong: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
      const taking = new StepGroups()
      /** Steps that each group was passed over in, though it could run, since it ran or came. */
      const waited = new Map<string, number>()
      for (const { running, idle, isLong } of steps) {
        const able = running.filter((name) => !idle.includes(name))
        for (const name of waited.keys()) if (!running.includes(name)) waited.delete(name)
        const given = stateOf(running.map((name) => `${name}1`).join(' '), '', 0)
        for (const { group } of taking.views(given, given.waiting, false)) {
          if (group === undefined || !able.includes(group)) continue
          taking.ran(group, [{ tokens: isLong ? 2 : 1 }])
          for (const name of able) waited.set(name, (waited.get(name) ?? 0) + 1)
          waited.set(group, 0)
          break
        }
        for (const [name, count] of waited) {
          if (count > stepsPerTurn * (names.length - 1)) throw new Error(`${name}: ${count}`)
        }
      }
    }),
    { seed: 11, numRuns: 300 },
  )
})

/**
 * The steps of each turn of groups that decode for ever on such a machine, after it has learned.
 * @param changeMs - what the first steps after a change take longer
 */
function turnsOn(names: string, changeMs: readonly number[], stepMs: number): Set<number> {
  const groups = new StepGroups()
  const state = stateOf(names, '', 0)
  const lengths = new Set<number>()
  let [last, steps] = ['', 0]
  for (let nth = 0; nth < 600; nth++) {
    const id = turn(groups, state, false, false)!.running
    const isSame = id === last
    const request = state.running.find((one) => one.id === id)!
    const parts = [{ request, tokens: 1, context: 5, isDecode: true }]
    const durationMs = stepMs + (changeMs[isSame ? steps : 0] ?? 0)
    const sums = { durationMs, prefillTokens: 0, decodeSequences: 1, contextTokens: 5 }
    groups.onStep({ type: 'step', now: 0, ...sums, parts })
    if (!isSame && nth > 200) lengths.add(steps)
    ;[last, steps] = [id, isSame ? steps + 1 : 1]
  }
  return lengths
}

t.test('turns are as long as a change of groups is worth', (t) => {
  t.same([...turnsOn('a1 b1', [20, 5], 5)], [20], 'a quarter of the time of the steps')
  t.same([...turnsOn('a1 b1', [100], 5)], [40], 'nobody waits longer than a fifth of a second')
  t.same([...turnsOn('a1 b1 c1 d1 e1 f1', [25], 5)], [8], 'whoever else there is')
  t.same([...turnsOn('a1 b1', [15], 60)], [stepsPerTurn])
  t.end()
})

t.test('free slots go by the order, whosever turn it is', (t) => {
  const cases: [string, string, number, ReturnType<typeof turn>][] = [
    // One group: as if there were none.
    ['-1', '-2 -3 -4', 2, { running: '-1', next: '-2 -3 -4', admit: '-2 -3 -4', delayed: '' }],
    ['', 'a1 a2', 1, { running: '', next: 'a1 a2', admit: 'a1 a2', delayed: '' }],
    // Another group is ahead: it gets its slot, and the rest may go to the group whose turn it is.
    ['a1', 'b1 a2 a3', 2, { running: 'a1', next: 'a2', admit: 'b1 a2', delayed: '' }],
    ['a1', 'a2 b1 c1 a3', 3, { running: 'a1', next: 'a2', admit: 'a2 b1 c1', delayed: '' }],
    ['a1', 'b1 a2', 1, { running: 'a1', next: '', admit: 'b1', delayed: '' }],
    ['a1', 'a2 b1', 1, { running: 'a1', next: 'a2', admit: 'a2', delayed: '' }],
    // Without free slots nobody gets one.
    ['a1', 'b1 a2', 0, { running: 'a1', next: '', admit: '', delayed: '' }],
    // The first one decides where nothing runs.
    ['', 'b1 a1 b2', 3, { running: '', next: 'b1 b2', admit: 'b1 a1 b2', delayed: '' }],
  ]
  for (const [running, waiting, free, expected] of cases) {
    t.same(turn(new StepGroups(), stateOf(running, waiting, free)), expected, waiting)
  }
  // A batching that forms whole groups does not mix them.
  t.match(turn(new StepGroups(), stateOf('a1', 'b1 a2', 3), true), { next: '', admit: '' })
  t.match(turn(new StepGroups(), stateOf('', 'b1 b2 a2 b3', 9), true), { admit: 'b1 b2' })
  t.end()
})

t.test('the order is read no further than it is asked for', (t) => {
  let read = 0
  function* endless(): Iterable<SequenceView> {
    for (;;) yield of(`a${read++}`)
  }
  for (const view of new StepGroups().views(stateOf('a', '', 4), endless(), false)) {
    const iterator = view.next[Symbol.iterator]()
    t.equal(read, 1)
    iterator.next()
    t.equal(iterator.next().value?.id, 'a1')
    t.equal(read, 2)
  }
  t.end()
})
