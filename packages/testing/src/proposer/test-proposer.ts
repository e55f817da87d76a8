import assert from 'node:assert/strict'
import type { ProposerDefinition, Drafter, Proposal, TokenId } from '@cllm/core'
import { ProposerCatalog, mixBits } from '@cllm/core'
import { check, checkDefined, type TestContext } from '../test-context.js'

/** Options of {@link testProposer}. */
export interface TestProposerOptions {
  /** Where the built-in proposer is tested itself: its definition is registered already. */
  readonly isBuiltIn?: boolean
}

const mosts = [1, 4, 16]

/**
 * The conformance suite of proposers: guesses follow from the tokens alone, so that a drafter that is
 * made in the middle of a sequence guesses the same; sequences do not disturb each other; it changes
 * nothing of what it is given, bears any tokens, and keeps to the number that is asked for.
 */
export async function testProposer(
  t: TestContext,
  definition: ProposerDefinition,
  { isBuiltIn = false }: TestProposerOptions = {},
): Promise<void> {
  const make = () => definition.create(definition.options?.parse({}) ?? {})

  await t.test(`proposer ${definition?.name}`, async (t) => {
    await checkDefined(t, 'proposer', definition, () => {
      if (!isBuiltIn) new ProposerCatalog().add(definition)
    })

    await check(t, 'guesses whole numbers, as many as are asked for at most', () => {
      for (const most of mosts) {
        for (const proposal of run(make().begin({}), most)) assertProposal(proposal, most)
      }
    })

    await check(t, 'a drafter that is made in the middle guesses the same', () => {
      const proposer = make()
      for (const most of mosts) {
        const whole = run(proposer.begin({}), most)
        for (const [index, tokens] of sequence.entries()) {
          assert.deepEqual(proposer.begin({})?.propose([...tokens], most), whole[index])
        }
      }
    })

    await check(t, 'asking again for the same tokens changes nothing', () => {
      const drafter = make().begin({})
      const once = run(make().begin({}), 4)
      const twice = sequence.map((tokens) => {
        drafter?.propose([...tokens], 16)
        return drafter?.propose([...tokens], 4)
      })
      assert.deepEqual(twice, once)
    })

    await check(t, 'sequences do not disturb each other', () => {
      const proposer = make()
      const alone = run(make().begin({}), 4)
      const [one, other] = [proposer.begin({}), proposer.begin({})]
      const beside = sequence.map((tokens) => {
        other?.propose(tokens.toReversed(), 4)
        return one?.propose([...tokens], 4)
      })
      assert.deepEqual(beside, alone)
    })

    await check(t, 'changes nothing of what it is given', () => {
      const drafter = make().begin({})
      for (const tokens of sequence) drafter?.propose(Object.freeze([...tokens]), 4)
    })
  })
}

const run = (drafter: Drafter | undefined, most: number): Proposal[] =>
  sequence.map((tokens) => drafter?.propose([...tokens], most) ?? { tokens: [] })

function assertProposal({ tokens, kind = 0 }: Proposal, most: number): void {
  assert(Array.isArray(tokens) && tokens.length <= most, `up to ${most} tokens are asked for`)
  for (const token of tokens) assert(Number.isInteger(token) && token >= 0, `${token} is no token`)
  assert(Number.isInteger(kind) && kind >= 0 && kind <= 15, `kind ${kind} is not 0 to 15`)
}

/** A sequence as it grows: numbers without a pattern, then all of them again with some changed. */
const sequence: readonly (readonly TokenId[])[] = Array.from({ length: 120 }, (_, index) =>
  Array.from({ length: index + 1 }, (_, at): TokenId => {
    const isChanged = at > 60 && at % 17 === 0
    return (mixBits(isChanged ? at : at % 60) >>> 0) % 300
  }),
)
