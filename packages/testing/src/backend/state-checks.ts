import assert from 'node:assert/strict'
import type { SlotStates } from '@cllm/core'
import { type BackendDriver, greedy } from './backend-driver.js'

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
