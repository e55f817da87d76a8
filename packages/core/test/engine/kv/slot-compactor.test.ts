import { runUntilIdle } from '@cllm/core/testing'
import t from 'tap'
import {
  collect,
  greedy,
  leftovers,
  nothingLeft,
  promptOf,
  rig,
  type RigOptions,
} from '../../rig.js'

/** Every gap between slots in use makes a step 5 ms longer. */
const layoutMs = (used: readonly number[]): number =>
  5 * Math.max(0, used.filter((slot) => !used.includes(slot - 1)).length - 1)

/** Three requests run in the slots 0, 1 and 2, then the middle one ends. */
async function withGap(options: RigOptions, maxTokens = 150) {
  const made = rig({
    slots: 4,
    layoutMs,
    stepMs: (batch) => {
      const tokens = batch.reduce((sum, item) => sum + item.tokens.length, 0)
      return 10 + tokens + layoutMs(batch.map(({ slot }) => slot))
    },
    copyMs: () => 40,
    ...options,
  })
  const answers = ['low', 'middle', 'high'].map((id, family) =>
    collect(made.client.submit({ ...greedy(promptOf(30, family), maxTokens), id })),
  )
  await runUntilIdle(made.clock, 1300)
  made.client.cancel('middle')
  return { made, answers }
}

const movesOf = ({ backend }: Awaited<ReturnType<typeof withGap>>['made']) =>
  backend.operations.filter(({ type }) => type === 'copyPrefix')

t.test('sequences come together when the gap has cost as much as the move', async (t) => {
  const { made, answers } = await withGap({})
  const stepsBefore = made.backend.steps.length
  const [low, , high] = await made.run(Promise.all(answers))
  t.equal(low?.tokens.length, 150)
  t.equal(high?.tokens.length, 150)
  t.match(movesOf(made), [{ from: 0, to: 3 }], 'into the slot that holds nothing')
  const apart = made.backend.steps
    .slice(stepsBefore)
    .filter(({ batch }) => batch.some(({ slot }) => slot === 0)).length
  t.ok(apart >= 2 && apart <= 40, `it moved after ${apart} steps`)
  const undisturbed = rig({ slots: 4 })
  for (const [index, answer] of [low, undefined, high].entries()) {
    if (answer === undefined) continue
    t.same(answer.tokens, (await undisturbed.ask(greedy(promptOf(30, index), 150))).tokens)
  }
  t.match(leftovers(made), nothingLeft)
})

t.test('nobody moves where it is not worth it', async (t) => {
  const cases: [string, RigOptions, number?][] = [
    ['any slots are as good', { layoutMs: () => 0 }],
    ['a copy costs more than all that is left to come', { copyMs: () => 5000 }],
    ['it ends soon', {}, 24],
  ]
  for (const [name, options, maxTokens] of cases) {
    const { made, answers } = await withGap(options, maxTokens)
    await made.run(Promise.all(answers))
    // what a copy costs is learned from the first one
    t.ok(movesOf(made).length <= 1, name)
    t.match(leftovers(made), nothingLeft)
  }
})

t.test('a move that fails changes nothing', async (t) => {
  for (const keepMultipleOf of [1, 16]) {
    const { made, answers } = await withGap({ keepMultipleOf })
    const { backend } = made
    const copy = backend.copyPrefix.bind(backend)
    backend.copyPrefix = async (from, to, length) => {
      await copy(from, to, length)
      if (keepMultipleOf === 1) throw new Error('half-way')
      return length - 1
    }
    const [low, , high] = await made.run(Promise.all(answers))
    t.equal(low?.tokens.length, 150)
    t.equal(high?.tokens.length, 150)
    t.match(leftovers(made), nothingLeft)
  }
})

t.test('two move where one alone would change nothing', async (t) => {
  const made = rig({
    slots: 8,
    layoutMs,
    stepMs: (batch) => 10 + 5 * layoutMs(batch.map(({ slot }) => slot)),
    copyMs: () => 40,
  })
  const { client, clock, run } = made
  const answers = Array.from({ length: 8 }, (_, family) =>
    collect(client.submit({ ...greedy(promptOf(30, family), 150), id: String(family) })),
  )
  await runUntilIdle(clock, 1300)
  for (const id of ['2', '3', '6', '7']) client.cancel(id)
  const ended = await run(Promise.all(answers))
  t.equal(movesOf(made).length, 2)
  const last = made.backend.steps.at(-1)?.batch.map(({ slot }) => slot) ?? []
  t.equal(layoutMs(last), 0, `they end in ${last.join()}`)
  for (const family of [0, 1, 4, 5]) t.equal(ended[family]?.tokens.length, 150)
  t.match(leftovers(made), nothingLeft)
})
