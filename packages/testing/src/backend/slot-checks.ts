import assert from 'node:assert/strict'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { CllmError } from '@cllm/core'
import { greedy, type BackendDriver } from './backend-driver.js'
import { checkDrafts, checkPool, checkStates } from './slot-feature-checks.js'

/** Draws at random, the same ones each time. */
const random = { ...greedy, temperature: 1, seed: 7 }
/** Slots above this size are not filled to the brim: that would take minutes on a real model. */
const fillableContext = 512

/** The checks of steps and of what slots hold. */
export async function checkSlots(driver: BackendDriver): Promise<void> {
  const { backend, prompt, same } = driver
  const { slots, contextSize, batchSize } = backend.limits
  const full = Array.from({ length: contextSize }, (_, at) => prompt[at % prompt.length] ?? 0)

  await driver.checkEmpty('a prompt in chunks gives the same next token as in one', async () => {
    const whole = await driver.compute(0, prompt, greedy)
    for (const chunk of [1, 3, prompt.length - 1]) {
      backend.release(0)
      same(await driver.compute(0, prompt, greedy, { chunk }), whole, `chunks of ${chunk}`)
    }
  })

  await driver.checkEmpty('every slot gives the same tokens', async () => {
    const first = await driver.generate(0, prompt, greedy, 4)
    for (let slot = 1; slot < slots; slot++) {
      same(await driver.generate(slot, prompt, greedy, 4), first, `slot ${slot}`)
    }
  })

  await driver.checkEmpty('sequences in one batch do not disturb each other', async () => {
    const count = Math.min(slots, batchSize, 8)
    const prompts = Array.from({ length: count }, (_, index) =>
      prompt.slice(0, prompt.length - index),
    )
    const alone = []
    for (const own of prompts) {
      backend.release(0)
      alone.push(await driver.generate(0, own, greedy, 6))
    }
    driver.releaseAll()
    same(await driver.generateTogether(prompts, greedy, 6), alone, 'together as alone')
  })

  await driver.checkEmpty('what was cut off can be computed again', async () => {
    const expected = await driver.generate(0, prompt, greedy, 6)
    for (const length of [prompt.length, prompt.length - 1, 2, 0]) {
      const kept = backend.truncate(0, length)
      assert(Number.isInteger(kept) && kept >= 0 && kept <= length, `${kept} of ${length} kept`)
      // The last token is computed again in any case: its output is wanted.
      const from = backend.truncate(0, Math.min(kept, prompt.length - 1))
      same(await driver.generate(0, prompt, greedy, 6, from), expected, `cut to ${length}`)
    }
  })

  await driver.checkEmpty('a copied prefix is as good as a computed one', async () => {
    if (slots < 2) return
    const expected = await driver.generate(0, prompt, greedy, 6)
    await driver.generate(1, prompt.slice(0, 5).toReversed(), greedy, 2)
    for (const length of [prompt.length - 1, 3, 0]) {
      const copied = await backend.copyPrefix(0, 1, length)
      assert(Number.isInteger(copied) && copied >= 0 && copied <= length, `${copied} of ${length}`)
      same(await driver.generate(1, prompt, greedy, 6, copied), expected, `copy of ${length}`)
    }
    const kept = backend.truncate(0, prompt.length - 1)
    same(await driver.generate(0, prompt, greedy, 6, kept), expected, 'the source is as before')
  })

  await driver.checkEmpty('a released slot is empty', async () => {
    const expected = await driver.generate(0, prompt, greedy, 4)
    backend.release(0)
    await driver.generate(0, prompt.toReversed(), greedy, 4)
    backend.release(0)
    backend.release(0)
    same(await driver.generate(0, prompt, greedy, 4), expected, 'nothing of before is left')
  })

  await driver.checkEmpty('the slot that it prefers is a free one', () => {
    const all = Array.from({ length: slots }, (_, slot) => slot)
    for (let used = 0; used < slots; used++) {
      for (const order of [all, all.toReversed()]) {
        const free = order.slice(used)
        const slot = backend.preferSlot(free, order.slice(0, used))
        assert(free.includes(slot), `slot ${slot} is preferred of the free ones ${free.join(', ')}`)
      }
    }
  })

  await driver.checkEmpty('what a layout of slots loses is a time', async () => {
    if (backend.layoutMs === undefined) return
    await driver.generate(0, prompt, greedy, 4)
    const all = Array.from({ length: slots }, (_, slot) => slot)
    for (const used of [[], [slots - 1], all, all.filter((slot) => slot % 2 === 0)]) {
      const lost = backend.layoutMs(used)
      assert(Number.isFinite(lost) && lost >= 0, `slots ${used.join()} lose ${lost} ms`)
      assert.equal(backend.layoutMs(used.toReversed()), lost, 'in any order')
    }
    assert.equal(backend.layoutMs([]), 0, 'nothing is lost without sequences')
    assert.equal(backend.layoutMs(all), 0, 'nor with all slots, for which there is no better place')
  })

  await driver.checkEmpty(
    'outputs can be had of several positions, or are refused as unsupported',
    async () => {
      if (batchSize < 2) return
      const expected = await driver.generate(0, prompt, greedy, 2)
      const position = backend.truncate(0, prompt.length - 1)
      const tokens = [...prompt.slice(position), ...expected.slice(0, 1)]
      const sampler = backend.createSampler(greedy, prompt)
      const outputs = [prompt.length - 1, prompt.length]
      try {
        const [drawn] = await driver.step([{ slot: 0, position, tokens, outputs, sampler }])
        same(
          drawn?.map(({ token }) => token),
          expected,
          'as one after the other',
        )
      } catch (error) {
        if (!CllmError.isInstance(error) || error.code !== 'unsupported') throw error
      } finally {
        sampler.dispose()
      }
    },
  )

  await driver.checkEmpty('drafts are verified up to the first that is not drawn', async () => {
    if (backend.capabilities.drafts !== true || batchSize < 6) return
    await checkDrafts(driver)
  })

  await driver.checkEmpty('a full slot goes on when tokens were taken out of it', async () => {
    if (backend.shift === undefined || contextSize > fillableContext) return
    const [keep, discard] = [2, Math.floor((contextSize - 2) / 2)]
    const goOn = async (slot: number): Promise<number[]> => {
      const next = prompt[0] ?? 0
      const sampler = backend.createSampler(greedy, [...full, next])
      const drawn: number[] = []
      await driver.compute(slot, full, greedy)
      backend.shift?.(slot, keep, discard)
      for (let position = contextSize - discard; drawn.length < 4; position++) {
        const tokens = [drawn.at(-1) ?? next]
        const item = { slot, position, tokens, outputs: [position], discarded: discard, sampler }
        const [outputs] = await driver.step([item])
        drawn.push(outputs![0]!.token)
      }
      sampler.dispose()
      return drawn
    }
    const first = await goOn(0)
    backend.release(0)
    same(await goOn(0), first, 'the same again')
    if (slots > 1) same(await goOn(1), first, 'in another slot')
  })

  await driver.checkEmpty('what a slot holds can be saved and restored', async () => {
    if (backend.states !== undefined) await checkStates(driver, backend.states)
  })

  await driver.checkEmpty('slots that share their cells hold kvTokens together', async () => {
    if (backend.limits.kvTokens !== undefined) await checkPool(driver)
  })

  await driver.checkEmpty('a step that is interrupted has changed nothing', async () => {
    if (backend.interrupt === undefined) return
    backend.interrupt()
    const count = Math.min(slots, batchSize, 3)
    const prompts = Array.from({ length: count }, (_, index) => prompt.slice(index))
    const expected = await driver.generateTogether(prompts, random, 6)
    try {
      for (const turns of [0, 1, 2, 5]) {
        driver.interruptsWhen = async () => {
          for (let turn = 0; turn < turns; turn++) await turnOfTheEventLoop()
        }
        driver.releaseAll()
        same(await driver.generateTogether(prompts, random, 6), expected, `after ${turns} turns`)
      }
    } finally {
      driver.interruptsWhen = undefined
    }
  })

  await driver.checkEmpty(
    'a slot takes contextSize tokens; a step that fails changes nothing',
    async () => {
      if (contextSize > fillableContext || slots < 2 || batchSize < 3) return
      const expected = await driver.generate(1, prompt, greedy, 2)
      await driver.compute(0, full.slice(0, -1), greedy)
      backend.release(1)
      await driver.compute(1, prompt.slice(0, -1), greedy)
      const last = full.slice(-1)
      const next = { slot: 1, position: prompt.length - 1, tokens: prompt.slice(-1), outputs: [] }
      await assert.rejects(
        backend.step([
          { slot: 0, position: contextSize - 1, tokens: [...last, ...last], outputs: [] },
          next,
        ]),
        'a token beyond contextSize makes the step fail',
      )
      await driver.step([{ slot: 0, position: contextSize - 1, tokens: last, outputs: [] }])
      same(
        await driver.generate(1, prompt, greedy, 2, prompt.length - 1),
        expected,
        'its neighbour',
      )
    },
  )
}
