import assert from 'node:assert/strict'
import type { TokenId, SlotStates } from '@cllm/core'
import { type BackendDriver, greedy } from './backend-driver.js'

/** Tokens that are guessed at once. */
const guesses = 5

/**
 * The check of drafts, right ones and wrong ones at every place, greedy, at random and with penalties:
 * what is drawn is what is drawn one token at a time, up to and with the first token that was not
 * guessed; after `truncate` the same sampler goes on as if nothing had been guessed.
 */
export async function checkDrafts(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  const random = { ...greedy, temperature: 1, topK: 40, seed: 7 }
  const penalized = { ...random, repetitionPenalty: 1.2, frequencyPenalty: 0.5 }
  for (const params of [greedy, random, penalized]) {
    const free = { ...params, ignoreEos: true }
    driver.releaseAll()
    const expected = await driver.generate(0, prompt, free, guesses + 2)
    for (let wrongAt = 0; wrongAt <= guesses; wrongAt++) {
      driver.releaseAll()
      const drafts = expected.slice(0, guesses).map((token, at) => {
        return at === wrongAt ? otherThan(token, prompt) : token
      })
      const last = prompt.length - 1
      const sampler = backend.createSampler(free, prompt)
      try {
        await driver.compute(0, prompt.slice(0, -1), greedy)
        const outputs = Array.from({ length: guesses + 1 }, (_, nth) => last + nth)
        const tokens = [...prompt.slice(-1), ...drafts]
        const item = { slot: 0, position: last, tokens, outputs, drafts: guesses, sampler }
        const [drawn = []] = (await backend.step([item])).outputs
        const positions = drawn.map(({ position }) => position)
        assert.deepEqual(positions, outputs.slice(0, drawn.length), 'positions from the first on')
        if (!driver.exact) continue
        const found = drawn.map(({ token }) => token)
        assert.deepEqual(found, expected.slice(0, wrongAt + 1), `draft ${wrongAt} is wrong`)
        const length = last + drawn.length
        assert.equal(backend.truncate(0, length), length, 'a few tokens can be taken off')
        const position = length
        const next = { slot: 0, position, tokens: found.slice(-1), outputs: [position], sampler }
        const [after = []] = (await backend.step([next])).outputs
        assert.equal(after[0]?.token, expected[wrongAt + 1], 'the sampler goes on')
      } finally {
        sampler.dispose()
      }
    }
  }
}

/** A token of the prompt that is another one. */
function otherThan(token: TokenId, prompt: readonly TokenId[]): TokenId {
  const other = prompt.find((one) => one !== token)
  assert(other !== undefined, 'the prompt has two different tokens')
  return other
}

/** Checks that `freeTokens` says how much fits into KV cells that all slots share, and that it does. */
export async function checkPool(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  const { slots, contextSize, kvTokens = 0, batchSize } = backend.limits
  assert(kvTokens >= contextSize, `kvTokens is ${kvTokens}, a slot takes ${contextSize}`)
  const free = (expected: number, when: string) =>
    assert.equal(backend.freeTokens, expected, `freeTokens ${when}`)
  free(kvTokens, 'of empty slots')
  await driver.compute(0, prompt, greedy)
  const left = kvTokens - prompt.length
  free(left, 'behind a prompt')
  if (slots > 1) {
    const copied = await backend.copyPrefix(0, 1, prompt.length)
    free(left, 'behind a copy')
    backend.release(0)
    free(kvTokens - copied, 'while the copy is there')
    backend.release(1)
    await driver.compute(0, prompt, greedy)
  }
  const kept = backend.truncate(0, prompt.length - 1)
  free(kvTokens - kept, 'behind a cut')
  driver.releaseAll()
  free(kvTokens, 'of slots that were emptied')
  if (slots * contextSize <= kvTokens || kvTokens > 4096) return
  const token = prompt[0]!
  for (let slot = 0, some = backend.freeTokens ?? 0; some > 0; slot++) {
    const most = Math.min(contextSize, some)
    for (let position = 0; position < most; position += batchSize) {
      const tokens = Array.from({ length: Math.min(batchSize, most - position) }, () => token)
      await driver.step([{ slot, position, tokens, outputs: [] }])
    }
    some -= most
  }
  free(0, 'of a full pool')
  const rest = kvTokens % contextSize
  const slot = Math.floor(kvTokens / contextSize)
  await assert.rejects(
    backend.step([{ slot, position: rest, tokens: [token], outputs: [] }]),
    'a token beyond kvTokens makes the step fail',
  )
  free(0, 'behind a step that failed')
}

/** Saved states: in other slots, cut short, and checkpoints. */
export async function checkStates(driver: BackendDriver, states: SlotStates): Promise<void> {
  const { backend, prompt, same } = driver
  const last = backend.limits.slots - 1
  const tokens = prompt.length - 1
  assert.equal(await states.key(), await states.key(), 'the key stays the same')
  const expected = await driver.generate(0, prompt, greedy, 6)
  backend.release(0)
  await driver.compute(0, prompt.slice(0, tokens), greedy)
  const state = await states.save(0)
  assert(state !== undefined && state.byteLength > 0, 'a slot with tokens has a state')
  same(await driver.generate(0, prompt, greedy, 6, tokens), expected, 'saving changes nothing')

  if (last > 0) await driver.compute(last, prompt.toReversed(), greedy)
  assert.equal(await states.restore(last, state, { tokens }), true, 'it is restored elsewhere')
  same(await driver.generate(last, prompt, greedy, 6, tokens), expected, 'as if it were computed')

  for (const length of [tokens, tokens - 1, 2]) {
    const canCut = states.canCut(0, length)
    if (states.cutsAnywhere) assert(canCut, `a slot can be cut to ${length}`)
    if (canCut) assert.equal(backend.truncate(0, length), length, 'and is')
  }
  const short = state.slice(0, Math.floor(state.byteLength / 2))
  assert.equal(await states.restore(0, short, { tokens }), false, 'half a state is refused')
  assert.equal(
    await states.restore(0, state, { tokens: tokens - 1 }),
    false,
    'as is a wrong length',
  )
  same(await driver.generate(0, prompt, greedy, 6), expected, 'and the slot is empty then')
  driver.releaseAll()
  if (!states.cutsAnywhere) await checkCheckpoints(driver, states)
}

async function checkCheckpoints(driver: BackendDriver, states: SlotStates): Promise<void> {
  const { backend, prompt, same } = driver
  const expected = await driver.generate(0, prompt, greedy, 6)
  backend.release(0)
  const half = Math.floor(prompt.length / 2)
  const partial = true
  await driver.compute(0, prompt.slice(0, half), greedy)
  const checkpoint = await states.save(0, { partial })
  assert(checkpoint !== undefined, 'a slot with tokens has a checkpoint')
  const beyond = [...prompt.slice(half).toReversed(), ...prompt.slice(0, half)]
  for (const more of [beyond.slice(0, 1), beyond]) {
    await driver.compute(0, [...prompt.slice(0, half), ...more], greedy, { from: half })
    assert.equal(await states.restore(0, checkpoint, { tokens: half, partial }), true)
    same(await driver.generate(0, prompt, greedy, 6, half), expected, 'cut back to a checkpoint')
    assert.equal(await states.restore(0, checkpoint, { tokens: half, partial }), true)
  }
  const other = backend.limits.slots - 1
  if (other === 0) return
  const held = half + beyond.length
  await driver.compute(0, [...prompt.slice(0, half), ...beyond], greedy, { from: half })
  if (states.checkpointNeedsPrefix) {
    assert.equal(await backend.copyPrefix(0, other, held), held, 'all of a slot is copied')
    // The copy may need a step to be done.
    await driver.compute(0, [...prompt.slice(0, half), ...beyond, ...beyond], greedy, {
      from: held,
    })
  }
  assert.equal(await states.restore(other, checkpoint, { tokens: half, partial }), true)
  same(await driver.generate(other, prompt, greedy, 6, half), expected, 'and in another slot')
}
