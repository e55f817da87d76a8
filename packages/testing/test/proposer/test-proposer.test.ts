import { defineProposer, ngramProposer, type Proposer } from '@cllm/core'
import { type TestContext, testProposer } from '@cllm/testing'
import t from 'tap'

t.test('the built-in proposer conforms', async (t) => {
  await testProposer(t, ngramProposer, { isBuiltIn: true })
})

/** The names of the checks that fail. */
async function failuresOf(create: () => Proposer): Promise<string[]> {
  const failed: string[] = []
  const context: TestContext = {
    pass: () => undefined,
    test: async (name, body) => {
      try {
        await body(context)
      } catch {
        failed.push(name)
      }
    },
  }
  await testProposer(context, defineProposer({ name: 'wrong', doc: 'Wrong.', create }))
  return failed
}

t.test('proposers that break the contract are caught', async (t) => {
  const cases: Record<string, [create: () => Proposer, check: string]> = {
    'too many': [
      () => ({ begin: () => ({ propose: () => ({ tokens: [1, 2, 3] }) }) }),
      'guesses whole numbers, as many as are asked for at most',
    ],
    'half tokens': [
      () => ({ begin: () => ({ propose: () => ({ tokens: [0.5] }) }) }),
      'guesses whole numbers, as many as are asked for at most',
    ],
    'a memory of calls': [
      () => ({
        begin: () => {
          let calls = 0
          return { propose: () => ({ tokens: [calls++] }) }
        },
      }),
      'a drafter that is made in the middle guesses the same',
    ],
    'one state for all': [
      () => {
        const seen = new Set<string>()
        const propose = (tokens: readonly number[]) => {
          seen.add(tokens.join())
          return { tokens: [seen.size] }
        }
        return { begin: () => ({ propose }) }
      },
      'sequences do not disturb each other',
    ],
    'a change': [
      () => ({
        begin: () => ({
          propose: (tokens) => {
            ;(tokens as number[]).sort((a, b) => a - b)
            return { tokens: [] }
          },
        }),
      }),
      'changes nothing of what it is given',
    ],
  }
  for (const [name, [create, check]] of Object.entries(cases)) {
    t.ok((await failuresOf(create)).includes(check), name)
  }
})
