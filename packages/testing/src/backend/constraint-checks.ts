import assert from 'node:assert/strict'
import { type OutputConstraint, type TokenId, CllmError } from '@cllm/core'
import { check, type TestContext } from '../test-context.js'
import { type BackendDriver, greedy } from './backend-driver.js'

/** Short ones, and the texts that they allow. A backend may refuse some of them. */
const samples: readonly (readonly [OutputConstraint, RegExp])[] = [
  [{ type: 'regex', pattern: '[0-9]{3}' }, /^[0-9]{3}$/],
  [{ type: 'gbnf', grammar: 'root ::= "yes" | "no"' }, /^(yes|no)$/],
  [{ type: 'json-schema', schema: { enum: ['red', 'blue'] } }, /^\s*"(red|blue)"\s*$/],
]

/** What no backend can honour. */
const nonsense: readonly OutputConstraint[] = [
  { type: 'regex', pattern: '([0-9' },
  { type: 'gbnf', grammar: 'root ::= (' },
]

/** Tokens in which each sample's text has ended. */
const enough = 24

/** The checks of constraints: text keeps to them and ends, and what cannot be honoured is refused. */
export async function checkConstraints(t: TestContext, driver: BackendDriver): Promise<void> {
  const { backend } = driver
  await check(t, 'honours constraints if it says so, and refuses others before', async () => {
    if (backend.checkConstraint === undefined) return
    for (const constraint of nonsense) {
      assert(isRefused(driver, constraint), `${JSON.stringify(constraint)} is refused`)
    }
    const honoured = samples.filter(([constraint]) => !isRefused(driver, constraint))
    assert(honoured.length > 0, 'it honours a constraint')
    for (const [constraint, allowed] of honoured) {
      for (const temperature of [0, 1]) await assertKept(driver, constraint, allowed, temperature)
    }
  })
}

/** Whether `checkConstraint` throws what it must throw then. */
function isRefused({ backend }: BackendDriver, constraint: OutputConstraint): boolean {
  try {
    backend.checkConstraint?.(constraint)
    return false
  } catch (error) {
    assert(CllmError.isInstance(error) && error.code === 'invalid_constraint', String(error))
    return true
  }
}

/** Each token with a sampler of its own, as if the request went on in another engine. */
async function assertKept(
  driver: BackendDriver,
  constraint: OutputConstraint,
  allowed: RegExp,
  temperature: number,
): Promise<void> {
  const { backend, prompt } = driver
  const { tokenizer } = backend
  const drawn: TokenId[] = []
  for (let count = 0; count < enough; count++) {
    const tokens = [...prompt, ...drawn]
    const params = { ...greedy, temperature, constraint }
    const sampler = backend.createSampler(params, tokens, prompt.length)
    const { token } = await driver.drawWith(sampler, tokens)
    if (tokenizer.isEndOfGeneration(token)) break
    drawn.push(token)
  }
  const text = tokenizer.decode(drawn)
  assert.match(text, allowed, `keeps to ${JSON.stringify(constraint)}`)
}
