import assert from 'node:assert/strict'
import { type AppliedAdapter, type TokenId, CllmError, type OutputConstraint } from '@cllm/core'
import { type BackendDriver, greedy } from './backend-driver.js'

/** Tokens of each answer. */
const answerTokens = 6

/**
 * The checks of adapters.
 *
 * @param path - an adapter of the model that changes what it says; undefined: only what a backend says
 *   of itself is checked
 */
export async function checkAdapters(
  driver: BackendDriver,
  path: string | undefined,
): Promise<void> {
  const { backend, same } = driver
  const { adapters } = backend
  await driver.check('has adapters if it says so, and refuses what is none', async () => {
    const missing = 'no/such/adapter'
    const error: unknown = await adapters?.load(missing).catch((error: unknown) => error)
    if (adapters === undefined) return
    assert(CllmError.isInstance(error), 'a file that is not there is a CllmError')
    assert(error.message.includes(missing), `the message names the file: ${error.message}`)
  })
  if (adapters === undefined || path === undefined) return
  await driver.check('adapters change what is said, each step for itself', async () => {
    const adapter = await adapters.load(path)
    const again = await adapters.load(path)
    assert.equal(again.key, adapter.key, 'the same file has the same key')
    const full = [{ adapter, scale: 1 }]
    const opposite = [{ adapter, scale: -1 }]
    const lists = [[], full, opposite, []]
    driver.releaseAll()
    const alone: TokenId[][] = []
    for (const list of lists) alone.push(...(await inTurns(driver, [list])))
    const [base, changed] = alone
    assert.notDeepEqual(changed, base, 'with the adapter it says something else')
    same(alone[3], base, 'and without it again what it said')
    const together = lists.slice(0, backend.limits.slots)
    const expected = alone.slice(0, together.length)
    same(await inTurns(driver, together), expected, 'beside others as alone')
    await assertNotMixed(driver, full)
    again.dispose()
    same(await inTurns(driver, [full]), [changed], 'another was disposed of')
    adapter.dispose()
    same(await inTurns(driver, [[]]), [base], 'and all')
    driver.releaseAll()
  })
}

/** Greedy answers with each of the lists of adapters, a step of each in turn, each in its slot. */
async function inTurns(
  driver: BackendDriver,
  lists: readonly (readonly AppliedAdapter[])[],
): Promise<TokenId[][]> {
  const { backend, prompt } = driver
  driver.releaseAll()
  const sequences = lists.map((adapters, slot) => ({
    slot,
    more: adapters.length === 0 ? {} : { adapters },
    tokens: [...prompt],
    sampler: backend.createSampler({ ...greedy, ignoreEos: true }, prompt),
  }))
  for (let drawn = 0; drawn < answerTokens; drawn++) {
    for (const { slot, more, tokens, sampler } of sequences) {
      const from = drawn === 0 ? 0 : tokens.length - 1
      tokens.push((await driver.advance(slot, tokens, sampler, { from, more })).token)
    }
  }
  for (const { sampler } of sequences) sampler.dispose()
  return sequences.map(({ tokens }) => tokens.slice(prompt.length))
}

async function assertNotMixed(
  driver: BackendDriver,
  adapters: readonly AppliedAdapter[],
): Promise<void> {
  if (driver.backend.limits.slots < 2) return
  driver.releaseAll()
  const item = { position: 0, tokens: driver.prompt.slice(0, 2), outputs: [] }
  const mixed = [
    { ...item, slot: 0, adapters },
    { ...item, slot: 1 },
  ]
  await assert.rejects(driver.backend.step(mixed), 'a step has the same adapters for all')
}

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
const mostTokens = 24

/** The checks of constraints: text keeps to them and ends, and what cannot be honoured is refused. */
export async function checkConstraints(driver: BackendDriver): Promise<void> {
  const { backend } = driver
  await driver.check('honours constraints if it says so, and refuses others before', async () => {
    if (backend.checkConstraint === undefined) return
    for (const constraint of nonsense) {
      assert(await isRefused(driver, constraint), `${JSON.stringify(constraint)} is refused`)
    }
    let honoured = 0
    for (const [constraint, allowed] of samples) {
      if (await isRefused(driver, constraint)) continue
      honoured++
      for (const temperature of [0, 1]) await assertKept(driver, constraint, allowed, temperature)
    }
    assert(honoured > 0, 'it honours a constraint')
  })
  await driver.check('a check of a constraint that is ended ends, and no other', async () => {
    const [begun, before] = [new AbortController(), new AbortController()]
    const gone = new CllmError('cancelled', 'its client has left')
    before.abort(gone)
    const ended = [begun, before].map(async ({ signal }, nth) => {
      try {
        await isRefused(driver, longOne(nth), signal, `tenant ${nth}`)
      } catch (error) {
        assert.equal(error, gone, 'it rejects with the reason')
      }
    })
    begun.abort(gone)
    const refused = isRefused(driver, longOne(2), new AbortController().signal)
    await Promise.all(ended)
    const others = [await refused, await isRefused(driver, longOne(0))]
    assert.equal(others[0], others[1], 'the same constraint can be checked again')
  })
}

/** One that may take longer; it differs from the others. */
const longOne = (nth: number): OutputConstraint => ({
  type: 'json-schema',
  schema: { enum: Array.from({ length: 2000 }, (_, value) => `${nth} ${value}`) },
})

/** Whether `checkConstraint` throws what it must throw then. */
async function isRefused(
  { backend }: BackendDriver,
  constraint: OutputConstraint,
  signal?: AbortSignal,
  tenant?: string,
): Promise<boolean> {
  try {
    await backend.checkConstraint?.(constraint, signal, tenant)
    return false
  } catch (error) {
    if (signal?.aborted === true && error === signal.reason) throw error
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
  for (let count = 0; count < mostTokens; count++) {
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

/** The checks of embeddings, which are computed beside everything but steps. */
export async function checkEmbeddings(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  if (backend.capabilities.generates === false) {
    await driver.check('a model that writes no text has embeddings', async () => {
      assert(backend.embed !== undefined, 'it has them')
      const [first = []] = await backend.embed([prompt])
      const [second = []] = await backend.embed([prompt])
      assertSame(second, first, 'the same vector each time')
    })
    return await checkSeveral(driver)
  }
  await driver.check('embeds an input beside what is done with slots', async () => {
    if (backend.embed === undefined) return
    driver.releaseAll()
    const expected = await driver.generate(0, prompt, greedy, 4)
    const [alone = []] = await backend.embed([prompt])
    const pass = backend.embed([prompt])
    const other = backend.limits.slots > 1 ? 1 : 0
    const length = prompt.length - 1
    const copied = other === 0 ? 0 : await backend.copyPrefix(0, other, length)
    const [beside = []] = await pass
    assertSame(beside, alone, 'the same vector as alone')
    const said = other === 0 ? expected : await driver.generate(other, prompt, greedy, 4, copied)
    driver.same(said, expected, 'slots keep what they hold')
  })
  await checkSeveral(driver)
}

/** Two inputs of one call have the vectors that they have alone. */
async function checkSeveral(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  await driver.check('embeds several inputs at once as each alone', async () => {
    const { embeddingInputs = 1, embeddingTokens = Infinity } = backend.limits
    const inputs = [prompt, prompt.slice(0, Math.ceil(prompt.length / 2))]
    const count = inputs.flat().length
    if (backend.embed === undefined) return
    if (embeddingInputs < inputs.length || count > embeddingTokens) return
    const together = await backend.embed(inputs)
    assert.equal(together.length, inputs.length, 'there is one vector per input')
    for (const [index, input] of inputs.entries()) {
      const [alone = []] = await backend.embed([input])
      assertSame(together[index] ?? [], alone, 'the same vector as alone')
    }
  })
}

function assertSame(actual: readonly number[], expected: readonly number[], message: string): void {
  assert(expected.length > 0 && actual.length === expected.length, `${actual.length} numbers`)
  for (const [index, number] of expected.entries()) {
    assert(Math.abs(number - (actual[index] ?? NaN)) < 1e-3, message)
  }
}
