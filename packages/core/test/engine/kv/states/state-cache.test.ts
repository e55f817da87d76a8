import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import {
  type Plan,
  SLOT_ACTIONS,
  type SlotFiles,
  type StateFile,
  type StateFiles,
  SimulatedClock,
  systemClock,
  type TokenId,
} from '@cllm/core'
import { SlotFolder, StateFolder, type StateFolderOptions, TouchedMemory } from '@cllm/host'
import { firstComeFirstServed, runUntilIdle, until } from '@cllm/testing'
import t, { type Test } from 'tap'
import {
  collect,
  expectedTokens,
  greedy,
  leftovers,
  loggerOf,
  nothingLeft,
  policyOf,
  promptOf,
  type Rig,
  rig,
  type RigOptions,
} from '../../../rig.js'

/** Time goes with tokens, so that the engine learns what computing costs. */
const stepMs: RigOptions['stepMs'] = (batch) =>
  batch.reduce((ms, { tokens }) => ms + tokens.length, 5)

/** An engine that keeps what its slots lose. */
const caching = (options: RigOptions = {}, cacheRamBytes = 1e6): Rig =>
  rig({
    slots: 2,
    contextSize: 1000,
    stepMs,
    stateMs: (bytes) => bytes / 1000,
    options: { cacheRamBytes },
    ...options,
  })

/** Asks, checks the answer, and returns the conversation with it and how many tokens were found. */
async function ask(t: Test, made: Rig, prompt: readonly TokenId[], change: object = {}) {
  const request = { ...greedy(prompt, 4), ...change }
  const answer = await made.run(collect(made.client.submit(request)))
  t.same(answer.tokens, expectedTokens(made.backend, prompt, 4), 'the answer is the right one')
  return { said: [...prompt, ...answer.tokens], cached: answer.end?.usage.cachedTokens ?? -1 }
}

const ramOf = (made: Rig) => made.engine.statistics().cache!.ram

t.test(
  'a request that found nothing is one miss, however often it has to begin again',
  async (t) => {
    const plans: Partial<Plan>[] = [
      { preempt: ['first'] },
      { admit: ['second'], run: [{ id: 'second', tokens: 100 }] },
    ]
    const policy = policyOf((state) => {
      const hasBegun = plans.length < 2 || state.running[0]?.generatedTokens === 2
      const plan = hasBegun ? plans.shift() : undefined
      if (plan === undefined) return firstComeFirstServed.plan(state)
      return { admit: [], preempt: [], reject: [], run: [], wakeAt: state.now + 5, ...plan }
    })
    const made = caching({ slots: 1, policy }, 1)
    const submit = (id: string, family: number) =>
      collect(made.client.submit({ ...greedy(promptOf(100, family), 4), id }))
    const [first, second] = [submit('first', 1), submit('second', 2)]
    await made.run(Promise.all([first, second]))
    t.equal(made.engine.statistics().preemptions, 1)
    t.match(ramOf(made), { misses: 2 })
  },
)

t.test('a conversation whose slot was given away goes on where it was', async (t) => {
  const made = caching()
  const conversations: TokenId[][] = []
  for (const family of [1, 2, 3, 4, 5]) {
    conversations.push((await ask(t, made, promptOf(100, family))).said)
  }
  t.match(ramOf(made), { states: 3, saved: 3, hits: 0, misses: 5 }, 'three slots were lost')
  await runUntilIdle(made.clock)
  t.match(ramOf(made), { states: 5, saved: 5 }, 'the others are saved when nobody comes any more')
  for (const [index, said] of conversations.entries()) {
    const { cached } = await ask(t, made, [...said, ...promptOf(7, 9)])
    t.equal(
      cached,
      said.length - 1,
      `conversation ${index}: all but the token that was not computed`,
    )
  }
  t.match(ramOf(made), { misses: 5, failed: 0, skipped: 0 })
  t.ok(ramOf(made).hits >= 3)
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('a part of what was saved is used, and only by those who may', async (t) => {
  const made = caching({ slots: 1, options: { cacheRamBytes: 1e6, isolateTenants: true } })
  const shared = promptOf(120)
  await ask(t, made, [...shared, ...promptOf(30, 1)], { tenant: 'a' })
  await ask(t, made, promptOf(80, 2), { tenant: 'b' })
  t.equal((await ask(t, made, [...shared, ...promptOf(20, 3)], { tenant: 'b' })).cached, 0)
  t.equal((await ask(t, made, [...shared, ...promptOf(20, 4)], { tenant: 'a' })).cached, 120)
  t.equal((await ask(t, made, [...shared, 9], { tenant: 'a', cache: false })).cached, 0)
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('what does not fit is dropped, the longest unused first', async (t) => {
  const made = caching({ slots: 1 }, 3600)
  const first = await ask(t, made, promptOf(150, 1))
  await ask(t, made, promptOf(150, 2))
  await ask(t, made, promptOf(150, 3))
  await runUntilIdle(made.clock)
  t.match(ramOf(made), { states: 1, saved: 3, evictions: 2 })
  t.ok(ramOf(made).bytes <= 3600)
  t.equal((await ask(t, made, [...first.said, 5])).cached, 0, 'the first one is gone')
  await runUntilIdle(made.clock)
})

t.test('what is kept for a time, within the share of its tenant', async (t) => {
  const made = caching({ slots: 1 }, 20_000)
  const keepMs = 600_000
  const pinned = () =>
    made.engine.features
      .get(SLOT_ACTIONS)
      .cache('list')
      .filter((state) => state.pinned).length
  for (const family of [1, 2, 3]) await ask(t, made, promptOf(150, family), { keepMs })
  t.equal(pinned(), 2, 'a quarter has room for two')
  const other = await ask(t, made, promptOf(150, 4), { keepMs, tenant: 'other' })
  t.equal(pinned(), 3, 'another tenant has a share of its own')
  for (const family of [5, 6, 7, 8, 9, 10, 11, 12, 13]) await ask(t, made, promptOf(150, family))
  t.ok(ramOf(made).evictions > 0)
  t.equal(pinned(), 3, 'others are dropped')
  t.equal((await ask(t, made, [...other.said, 5])).cached, 153)
  const wrong = await made.ask({ ...greedy(promptOf(9), 1), keepMs: -1 })
  t.match(wrong.error, { code: 'invalid_request', details: { field: 'keepMs' } })
  made.clock.at(made.clock.now() + keepMs, () => {})
  await runUntilIdle(made.clock)
  t.equal(pinned(), 0, 'its time is over')
})

t.test('what is kept is saved when there is time, or nothing decodes', async (t) => {
  const made = caching({ slots: 3, stateMs: (bytes) => bytes / 16 })
  const keepMs = 600_000
  const pinned = () =>
    made.engine.features
      .get(SLOT_ACTIONS)
      .cache('list')
      .filter((one) => one.pinned)
  const steady = collect(made.client.submit(greedy(promptOf(20, 4), 600)))
  await runUntilIdle(made.clock, made.clock.now() + 100)
  // What a save costs is learned from the first ones.
  for (const family of [2, 3, 4, 5, 6]) await ask(t, made, promptOf(200, family), { keepMs })
  const { saved } = ramOf(made)
  t.ok(saved <= 5, `${saved} were saved`)
  const { said } = await ask(t, made, promptOf(200, 7), { keepMs })
  t.equal(ramOf(made).saved, saved, 'the slot keeps it meanwhile')
  t.equal((await ask(t, made, [...said, 5])).cached, 203, 'and its next turn')
  await made.run(steady)
  await runUntilIdle(made.clock)
  t.ok(
    pinned().some(({ tokens }) => tokens >= 203),
    'it is saved as it is now',
  )
  await runUntilIdle(made.clock)
})

t.test('of the turns of a conversation that is kept, the last is saved, in its time', async (t) => {
  for (const [keepMs, skips] of [
    [600_000, 1],
    [1, 0],
  ] as const) {
    const made = caching({ slots: 2, stateMs: (bytes) => bytes })
    // What a save costs is learned from the first ones.
    for (const family of [1, 2, 3, 4]) await ask(t, made, promptOf(200, family))
    const steady = collect(made.client.submit(greedy(promptOf(20, 9), 900)))
    await runUntilIdle(made.clock, made.clock.now() + 100)
    let { said } = await ask(t, made, promptOf(100, 5), { keepMs })
    for (let turn = 0; turn < 9; turn++) said = (await ask(t, made, [...said, 5], { keepMs })).said
    await runUntilIdle(made.clock, made.clock.now() + 50)
    const { skipped, saved } = ramOf(made)
    await ask(t, made, promptOf(200, 6))
    t.match(ramOf(made), { skipped: skipped + skips, saved }, `${keepMs} ms`)
    made.engine.cancel('steady')
    await made.run(steady)
    await runUntilIdle(made.clock)
  }
})

t.test('what is kept goes on in the longer state that takes its place', async (t) => {
  const made = caching({ slots: 1 }, 20_000)
  const { said } = await ask(t, made, promptOf(150, 1), { keepMs: 600_000 })
  const { said: more } = await ask(t, made, [...said, ...promptOf(80, 2)])
  await ask(t, made, promptOf(150, 3))
  const kept = made.engine.features
    .get(SLOT_ACTIONS)
    .cache('list')
    .filter((state) => state.pinned)
  t.match(kept, [{ tokens: more.length - 1 }])
  t.equal(kept.length, 1)
  await runUntilIdle(made.clock)
})

t.test('a short turn behind a prompt that others share is saved where that is cheap', async (t) => {
  for (const [bytesPerMs, isSaved] of [
    [1000, true],
    [2, false],
  ] as const) {
    const made = caching({ slots: 1, stateMs: (bytes) => bytes / bytesPerMs })
    const system = promptOf(150, 1)
    // What saving costs is learned from the first ones.
    for (const family of [11, 12, 13, 14, 15, 16]) await ask(t, made, promptOf(100, family))
    const { said } = await ask(t, made, [...system, ...promptOf(30, 2)])
    await ask(t, made, [...system, ...promptOf(30, 3)])
    const { cached } = await ask(t, made, [...said, ...promptOf(9, 4)])
    t.equal(cached, isSaved ? said.length - 1 : system.length)
    await runUntilIdle(made.clock)
  }
})

t.test('a conversation that goes on stays while prompts that come once pass by', async (t) => {
  const made = caching({ slots: 1 }, 8000)
  let { said } = await ask(t, made, promptOf(150, 1))
  for (const more of [2, 3]) {
    await ask(t, made, promptOf(150, 20 + more))
    const next = await ask(t, made, [...said, ...promptOf(7, more)])
    t.ok(next.cached > 0, 'its next turn finds it')
    said = next.said
  }
  for (const family of [31, 32, 33, 34, 35]) await ask(t, made, promptOf(150, family))
  t.ok(ramOf(made).evictions >= 2, `${ramOf(made).evictions} were dropped`)
  t.ok(ramOf(made).bytes <= 8000)
  const late = await ask(t, made, [...said, 5])
  t.equal(late.cached, said.length - 1, 'though it is the longest unused')
  // What nobody wants any more ages, however often it was wanted.
  for (let family = 40; family < 70; family++) await ask(t, made, promptOf(150, family))
  t.equal((await ask(t, made, [...late.said, 6])).cached, 0)
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('what is pinned is dropped for no other', async (t) => {
  const made = caching({ slots: 1 }, 4000)
  const pinned = await ask(t, made, promptOf(150, 1), { pin: true })
  for (const family of [2, 3, 4]) await ask(t, made, promptOf(150, family))
  const states = made.engine.features.get(SLOT_ACTIONS).cache('list')
  t.match(states[0], { pinned: true, tokens: 153 })
  t.ok(ramOf(made).evictions > 0, 'others are')
  t.equal((await ask(t, made, [...pinned.said, 5])).cached, 153, 'it is still there')
  const listed = made.engine.features.get(SLOT_ACTIONS).cache('list')
  t.ok(listed.some(({ pinned, tokens }) => pinned && tokens === 153))
  const wrong = await made.ask({ ...greedy(promptOf(9), 1), pin: 'yes' as never })
  t.match(wrong.error, { code: 'invalid_request', details: { field: 'pin' } })
  await ask(t, made, promptOf(150, 2))
  made.engine.features.get(SLOT_ACTIONS).cache('drop')
  t.equal((await ask(t, made, [...pinned.said, 9])).cached, 0, 'until all is dropped')
  await runUntilIdle(made.clock)
  for (const [family, change] of [{ pin: true }, { keepMs: 600_000 }].entries()) {
    const stopped = caching({ slots: 1 })
    const { text } = await stopped.ask(greedy(promptOf(150, family), 4))
    const request = { ...greedy(promptOf(150, family), 9), stop: [text.at(-1) ?? ''], ...change }
    t.match((await stopped.ask(request)).end, { reason: 'stop', stop: text.at(-1) })
    await runUntilIdle(stopped.clock)
    t.match(
      stopped.engine.features.get(SLOT_ACTIONS).cache('list'),
      [{ pinned: true }],
      'after a stop text, too',
    )
  }
  const off = caching({}, 0)
  await ask(t, off, promptOf(150, 1), { pin: true })
  t.equal(off.engine.statistics().cache, undefined, 'without a tier nothing is saved')
})

t.test('a state that cannot be restored is computed again', async (t) => {
  const made = caching({ slots: 1 })
  const { said } = await ask(t, made, promptOf(100, 1))
  await ask(t, made, promptOf(100, 2))
  made.backend.states.restore = async () => {
    throw new Error('no')
  }
  t.equal((await ask(t, made, [...said, 5])).cached, 0)
  t.match(ramOf(made), { hits: 0, failed: 1 })
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('no pause beside requests that decode is longer than a share of a step', async (t) => {
  const made = caching({ slots: 2, stateMs: (bytes) => bytes / 16 })
  const steady = collect(made.client.submit(greedy(promptOf(20, 4), 600)))
  await runUntilIdle(made.clock, made.clock.now() + 100)
  const first = await ask(t, made, promptOf(200, 1))
  // What a save costs is learned from the first ones.
  for (const family of [2, 3, 4, 5, 6, 7, 8]) await ask(t, made, promptOf(200, family))
  t.ok(ramOf(made).saved <= 5, `${ramOf(made).saved} were saved: each of 800 bytes took 50 ms`)
  t.ok(ramOf(made).skipped >= 1)
  t.equal((await ask(t, made, [...first.said, 5])).cached, 203, 'restoring may take longer')
  await made.run(steady)
  await runUntilIdle(made.clock)
})

t.test(
  'after a pause for states, the policy is asked again before a prompt is computed',
  async (t) => {
    const asked: { now: number; steps: number }[] = []
    // Prompts first, alone: those that decode wait for them.
    const policy = policyOf((state) => {
      const plan = firstComeFirstServed.plan(state)
      const decoding = new Set(
        state.running.filter((one) => one.remainingTokens === 1).map(({ id }) => id),
      )
      const prompts = plan.run.filter(({ id }) => !decoding.has(id))
      asked.push({ now: state.now, steps: made.backend.steps.length })
      return prompts.length > 0 ? { ...plan, run: prompts } : plan
    })
    const made: Rig = caching({ slots: 2, policy, stateMs: () => 5 })
    const { said } = await ask(t, made, promptOf(200, 1))
    for (const family of [2, 3]) await ask(t, made, promptOf(200, family))
    const steady = collect(made.client.submit(greedy(promptOf(20, 4), 300)))
    await runUntilIdle(made.clock, made.clock.now() + 200)
    asked.length = 0
    t.equal((await ask(t, made, [...said, 5])).cached, 203)
    const again = asked.filter(({ now, steps }, index) => {
      const before = asked[index - 1]
      return before?.steps === steps && now >= before.now + 5
    })
    t.ok(again.length >= 1, 'it was told of the time before the step began')
    await made.run(steady)
  },
)

t.test('memory and files are made ready beside the steps of others', async (t) => {
  const folder = join(t.testdir(), 'states')
  // States of thousands of tokens: smaller pieces of memory are not worth keeping.
  const long = { slots: 2, contextSize: 20_000, batchSize: 20_000 }
  const memory = new TouchedMemory()
  const asked: { bytes: number; steps: number; isGiven: boolean }[] = []
  const makeReady = async (bytes: number) => {
    const one = { bytes, steps: made.backend.steps.length, isGiven: false }
    asked.push(one)
    // It fails once, and then takes a while.
    if (asked.length === 1) throw new Error('no thread')
    await new Promise<void>((done) => made.clock.at(made.clock.now() + 200, done))
    one.isGiven = true
    return await memory.makeReady(bytes)
  }
  const made = caching({
    ...long,
    stepMs: (batch) => batch.reduce((ms, { tokens }) => ms + tokens.length, 20),
    stateMs: (bytes) => bytes / 1e5,
    stateFiles: folderOf(folder).files,
    stateMemory: { make: (bytes) => memory.make(bytes), makeReady },
    options: { cacheRamBytes: 1e6 },
  })
  const steady = collect(made.client.submit({ ...greedy(promptOf(20, 4), 900), id: 'steady' }))
  await runUntilIdle(made.clock, made.clock.now() + 200)
  const said: TokenId[][] = []
  for (const family of [1, 2, 3]) {
    said.push((await ask(t, made, promptOf(17_000, family))).said)
  }
  t.match(ramOf(made), { saved: 2, skipped: 0, failed: 0 })
  t.ok(asked.length >= 2 && asked.length <= 4, `memory was made ${asked.length} times`)
  t.ok(asked.slice(1).every(({ isGiven }) => isGiven))
  t.ok(made.backend.steps.length > asked.at(-1)!.steps + 4, 'steps went on meanwhile')
  const { longestPauseMs } = made.engine.statistics().cache!
  t.ok(longestPauseMs > 0 && longestPauseMs < 10, `a pause of ${longestPauseMs} ms`)
  made.engine.cancel('steady')
  await made.run(steady)
  await made.run(made.engine.close())

  // Next to its steps, reading the file takes long.
  const stepMs = () => 0.3
  const again = caching({ ...long, stepMs, stateFiles: folderOf(folder).files })
  const beside = collect(again.client.submit({ ...greedy(promptOf(20, 4), 900), id: 'steady' }))
  await runUntilIdle(again.clock, again.clock.now() + 20)
  const steps = again.backend.steps.length
  t.equal((await ask(t, again, [...said[0]!, 5])).cached, 17_003)
  t.ok(again.backend.steps.length > steps + 4)
  t.match(again.engine.statistics().cache, { ram: { hits: 0 }, disk: { hits: 1 } })
  again.engine.cancel('steady')
  await again.run(beside)
  await again.run(again.engine.close())
})

t.test('memory that cannot be had costs nobody an answer', async (t) => {
  const stateMemory = {
    make: (): ArrayBufferLike => {
      throw new RangeError('Array buffer allocation failed')
    },
    makeReady: async (): Promise<ArrayBufferLike> => {
      throw new Error('no thread')
    },
  }
  const long = { contextSize: 20_000, batchSize: 20_000, stateMs: (bytes: number) => bytes / 1e5 }
  const made = caching({ slots: 2, ...long, stateMemory })
  const steady = collect(made.client.submit(greedy(promptOf(20, 4), 300)))
  await runUntilIdle(made.clock, made.clock.now() + 200)
  for (const family of [1, 2, 3]) await ask(t, made, promptOf(17_000, family))
  t.match(ramOf(made), { saved: 0, states: 0, bytes: 0 })
  t.ok(ramOf(made).failed > 0)
  await made.run(steady)
})

/** A folder of states, and what it warned of. */
function folderOf(folder: string, options: Partial<StateFolderOptions> = {}, clock = systemClock) {
  const warnings: string[] = []
  const logger = {
    ...loggerOf().logger,
    warn: (_: object, message: string) => warnings.push(message),
  }
  const files = new StateFolder({ folder, limitBytes: 1e6, ...options }, clock, logger)
  return { files, warnings }
}

/** What waits until it is let go. */
function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open }
}

/** The same as plain functions. */
const bound = (files: StateFiles): StateFiles => ({
  limitBytes: files.limitBytes,
  list: (key, onLate) => files.list(key, onLate),
  read: (file, allocate, onLate) => files.read(file, allocate, onLate),
  write: (head, data) => files.write(head, data),
  touch: (file) => files.touch(file),
  remove: (file) => files.remove(file),
})

t.test('conversations wait in files only while their model has left', async (t) => {
  const folder = join(t.testdir(), 'states')
  const open = () => caching({ stateFiles: folderOf(folder, { whenClosing: true }).files })
  const first = open()
  const { said } = await ask(t, first, promptOf(100, 1))
  for (const family of [2, 3]) await ask(t, first, promptOf(100, family))
  t.same(existsSync(folder) ? readdirSync(folder) : [], [])
  await first.run(first.engine.close())
  t.equal(readdirSync(folder).length, 3)
  const second = open()
  t.equal((await ask(t, second, [...said, 5])).cached, said.length - 1)
  // The file goes after its state was read, beside the engine's loop.
  await until(() => readdirSync(folder).length === 2)
  rmSync(folder, { recursive: true })
  await second.run(second.engine.close())
  t.notOk(existsSync(folder), 'the server ends')
})

t.test('conversations survive a restart', async (t) => {
  const folder = join(t.testdir(), 'states')
  const first = caching({ stateFiles: folderOf(folder).files })
  const conversations: TokenId[][] = []
  for (const family of [1, 2, 3]) {
    conversations.push((await ask(t, first, promptOf(100, family))).said)
  }
  const again = await ask(t, first, [...conversations[0]!, ...promptOf(40, 8)])
  const listed = await first.client.cache('list')
  t.ok(listed.every(({ tokens, bytes, checkpoint }) => tokens > 99 && bytes > 399 && !checkpoint))
  t.ok(listed.some(({ tier }) => tier === 'ram'))
  await first.run(first.engine.close())
  t.match(first.engine.statistics().cache?.disk, { failed: 0, saved: 4, states: 3 })
  t.equal(statSync(folder).mode & 0o777, 0o700)
  const names = readdirSync(folder)
  t.equal(names.length, 3, 'a longer conversation takes the place of its beginning')
  for (const name of names) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600)

  const second = caching({ stateFiles: folderOf(folder).files })
  t.equal((await ask(t, second, [...again.said, 5])).cached, again.said.length - 1)
  t.equal((await ask(t, second, [...conversations[1]!, 5])).cached, 103)
  t.match(second.engine.statistics().cache, { disk: { hits: 2, hitTokens: 250 }, ram: { hits: 0 } })
  await second.run(second.engine.close())
  const dropped = caching({ stateFiles: folderOf(folder).files })
  await ask(t, dropped, promptOf(20, 7))
  t.ok((await dropped.client.cache('drop')).length >= 3)
  t.same(await dropped.client.cache('list'), [])
  t.equal((await ask(t, dropped, [...conversations[1]!, 5])).cached, 0)
  await dropped.run(dropped.engine.close())

  const other = caching({ id: 'other', stateFiles: folderOf(folder).files })
  t.equal((await ask(t, other, [...conversations[1]!, 5])).cached, 0, 'of another model')
  await other.run(other.engine.close())
})

t.test('what is in a file alone and takes longer to read than to compute is known', async (t) => {
  const folder = join(t.testdir(), 'states')
  const first = caching({ stateFiles: folderOf(folder).files })
  const { said } = await ask(t, first, promptOf(100))
  await first.run(first.engine.close())
  const second = caching({ stateFiles: folderOf(folder).files, stepMs: () => 0.01 })
  await ask(t, second, promptOf(200, 2))
  t.equal((await ask(t, second, [...said, 5], { id: 'again' })).cached, 0)
  const { timeline } = await second.client.explain('again')
  const cache = { from: 'none', why: 'computing_is_faster' }
  t.match(
    timeline.find(({ type }) => type === 'admitted'),
    { cache },
  )
  await second.run(second.engine.close())
})

t.test('of a conversation that is saved faster than it is written, the last is', async (t) => {
  const { files } = folderOf(join(t.testdir(), 'states'))
  let writes = 0
  const { opened, open } = gate()
  const slow: StateFiles = {
    ...bound(files),
    write: async (head, data) => {
      writes++
      await opened
      return await files.write(head, data)
    },
  }
  const made = caching({ slots: 1, stateFiles: slow })
  let { said } = await ask(t, made, promptOf(100, 1))
  for (const family of [2, 3, 4, 5]) {
    await runUntilIdle(made.clock)
    said = (await ask(t, made, [...said, ...promptOf(20, family)])).said
  }
  await runUntilIdle(made.clock)
  t.match(ramOf(made), { saved: 5, states: 1 })
  const one = ramOf(made).bytes
  t.ok(one > 1500, `${one} bytes: that which is being written still takes memory`)
  open()
  await made.run(made.engine.close())
  t.equal(writes, 2)
  t.ok(ramOf(made).bytes < one)
  t.match(await files.list('fake fake'), [{ tokens: said.slice(0, -1) }])
})

t.test(
  'files are written while nothing is computed, or when they can wait no longer',
  async (t) => {
    const written: number[] = []
    const stateFiles: StateFiles = {
      limitBytes: 1e6,
      list: async () => [],
      read: async () => undefined,
      write: async (head, data) => {
        const name = String(written.push(head.tokens.length))
        return { ...head, name, bytes: data.byteLength }
      },
      touch: async () => {},
      remove: async () => {},
    }
    const beside = async (made: Rig) => {
      const steady = { ...greedy(promptOf(20, 4), 900), id: 'steady' }
      const over = collect(made.client.submit(steady))
      await runUntilIdle(made.clock, made.clock.now() + 200)
      return async () => {
        made.engine.cancel('steady')
        await made.run(over)
      }
    }
    const slow: RigOptions = {
      stateFiles,
      stepMs: (batch) => batch.reduce((ms, { tokens }) => ms + tokens.length, 50),
    }
    const made = caching(slow)
    const end = await beside(made)
    const { said } = await ask(t, made, promptOf(100, 1))
    await ask(t, made, promptOf(80, 2))
    await ask(t, made, [...said, ...promptOf(20, 3)])
    await ask(t, made, promptOf(60, 5))
    t.match(ramOf(made), { saved: 3, states: 2 })
    t.same(written, [], 'not beside a request')
    await runUntilIdle(made.clock, made.clock.now() + 30_000)
    t.same(written, [83, 127], 'but in the end, without what a longer one has replaced')
    await end()
    await runUntilIdle(made.clock)
    t.equal(written.length, 3, 'at once when nothing is computed')
    await made.run(made.engine.close())

    written.length = 0
    const small = caching(slow, 4000)
    const endIt = await beside(small)
    await ask(t, small, promptOf(100, 1))
    await ask(t, small, promptOf(80, 2))
    await ask(t, small, promptOf(60, 5))
    t.same(written, [103], 'what waits does not fill the memory')
    await endIt()
    await small.run(small.engine.close())
  },
)

t.test('the next turn does not wait until the last one is saved', async (t) => {
  const { files } = folderOf(join(t.testdir(), 'states'))
  const made = caching({ slots: 1, stateFiles: files, stateMs: () => 500 })
  const { said } = await ask(t, made, promptOf(100, 1))
  await runUntilIdle(made.clock, made.clock.now() + 10)
  const { end } = await made.ask(greedy([...said, 5], 4))
  t.ok(end!.timings.queueMs < 100, `it waited for ${end!.timings.queueMs} ms`)
  t.equal(ramOf(made).saved, 0)
  await runUntilIdle(made.clock)
  t.equal(ramOf(made).saved, 1, 'it is saved when nobody has come for a while')
  await made.run(made.engine.close())
})

t.test('what is dropped while it waits to be written is written no more', async (t) => {
  const { files } = folderOf(join(t.testdir(), 'states'))
  const { opened, open } = gate()
  const slow: StateFiles = {
    ...bound(files),
    write: async (head, data) => {
      await opened
      return await files.write(head, data)
    },
  }
  const made = caching({ slots: 1, stateFiles: slow })
  for (const family of [1, 2, 3]) await ask(t, made, promptOf(100, family))
  await made.client.cache('drop')
  open()
  await made.run(made.engine.close())
  const kept = await files.list('fake fake')
  t.same(
    kept.map(({ tokens }) => tokens.slice(0, 100)),
    [promptOf(100, 3)],
    'only what its slot still holds',
  )
})

t.test('a file that is damaged, short or foreign is never used', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ stateFiles: folderOf(folder).files })
  const said: TokenId[][] = []
  for (const family of [1, 2, 3]) said.push((await ask(t, made, promptOf(100, family))).said)
  await made.run(made.engine.close())
  const [flipped, short, renamed] = readdirSync(folder).map((name) => join(folder, name))
  const bytes = readFileSync(flipped!)
  bytes[bytes.length - 20]! ^= 1
  writeFileSync(flipped!, bytes)
  truncateSync(short!, 500)
  writeFileSync(join(folder, `${'0'.repeat(40)}.state`), readFileSync(renamed!))
  writeFileSync(join(folder, `${'1'.repeat(40)}.state`), 'something else')
  writeFileSync(join(folder, 'notes.txt'), 'not ours')
  const { files, warnings } = folderOf(folder)
  const next = caching({ stateFiles: files })
  const cached = []
  for (const tokens of said) cached.push((await ask(t, next, [...tokens, 5])).cached)
  t.same(
    cached.toSorted((a, b) => a - b),
    [0, 0, 103],
    'one of three is as it was',
  )
  t.ok(warnings.length >= 3 && warnings.length <= 4, warnings.join('\n'))
  await next.run(next.engine.close())
  t.equal(readFileSync(join(folder, 'notes.txt'), 'utf8'), 'not ours')
  t.notOk(existsSync(flipped!), 'nor is it read in vain again')
})

t.test('a state is found as another process has written it, and only whole', async (t) => {
  for (const key of [undefined, 'a key of some length']) {
    const folder = join(t.testdir(), 'states')
    const [one, other] = [1, 2].map(() => folderOf(folder, { ...(key && { key }) }))
    const headOf = (scope: string) => ({ key: 'texts', scope, partial: false, tokens: [] })
    const [head, strange] = [headOf('a'), headOf('b')]
    const find = async () => Buffer.from((await other!.files.find(head))!.data).toString()
    t.equal(await other!.files.find(head), undefined)
    for (const text of ['short', 'a longer one', '']) {
      await one!.files.write(head, Buffer.from(text))
      t.equal(await find(), text)
    }
    const file = (await other!.files.find(head))!
    const before = file.usedAt
    await one!.files.touch(file)
    t.not((await other!.files.find(head))!.usedAt, before)
    const { name } = (await one!.files.write(strange, Buffer.from('secret')))!
    writeFileSync(join(folder, file.name), readFileSync(join(folder, name)))
    t.equal(await other!.files.find(head), undefined, 'of another scope')
    t.match(other!.warnings, [/holds other tokens/])
    rmSync(join(folder, file.name))
    mkdirSync(join(folder, file.name))
    await t.rejects(other!.files.find(head), 'nobody knows whether it is there')
  }
})

t.test('what cannot be handed to the thread of files fails alone', async (t) => {
  const { files, warnings } = folderOf(t.testdir())
  const head = { key: 'k', scope: '', partial: false, tokens: [1, 2, 3] }
  const gone = new Uint8Array(4)
  structuredClone(gone.buffer, { transfer: [gone.buffer] })
  t.equal(await files.write(head, gone), undefined)
  t.match(warnings, [/detached/])
  t.match(await files.write(head, new Uint8Array(4)), { bytes: 4 })
  t.match(await files.list('k'), [{ tokens: [1, 2, 3] }])
})

t.test('files are encrypted with a key, and of no use without it', async (t) => {
  const folder = join(t.testdir(), 'states')
  const key = 'a key of some length'
  const prompt = promptOf(100, 1)
  const made = caching({ stateFiles: folderOf(folder, { key }).files })
  const { said } = await ask(t, made, prompt)
  await ask(t, made, promptOf(100, 2))
  await made.run(made.engine.close())
  const paths = readdirSync(folder).map((name) => join(folder, name))
  for (const path of paths) t.notOk(readFileSync(path).includes('"scope"'), 'no head in clear')
  const find = async (change: Partial<StateFolderOptions>) => {
    const { files, warnings } = folderOf(folder, change)
    const engine = caching({ stateFiles: files })
    const { cached } = await ask(t, engine, [...said, 5])
    const found = { cached, warnings: [...warnings] }
    await engine.run(engine.engine.close())
    return found
  }
  const ignored = (reason: string) =>
    new RegExp(`^saved states in .*: 2 files are ignored.*: ${reason}$`)
  const wrong = await find({ key: 'another' })
  t.match(wrong, { cached: 0, warnings: [ignored('it is encrypted with another key')] })
  t.match(await find({}), {
    cached: 0,
    warnings: [/encrypted, and no key was given|with another key/],
  })
  const { cached, warnings } = await find({ key })
  t.equal(cached, 103)
  for (const reason of [/is not encrypted, and a key was given/, /encrypted with another key/]) {
    t.ok(
      warnings.some((warning) => reason.test(warning)),
      'those of the others are ignored',
    )
  }
})

t.test('a state that there is no memory for is left alone, and computed', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ stateFiles: folderOf(folder).files })
  const { said } = await ask(t, made, promptOf(100, 1))
  await made.run(made.engine.close())
  for (const [bytes, cached] of [
    [200, 0],
    [1e6, 103],
  ] as const) {
    const { files, warnings } = folderOf(folder)
    const next = caching({ stateFiles: files }, bytes)
    t.equal((await ask(t, next, [...said, 5])).cached, cached, `${bytes} bytes of RAM`)
    t.match(next.engine.statistics().cache, { disk: { failed: 0 }, ram: { failed: 0 } })
    await next.run(next.engine.close())
    t.same(warnings, [])
  }
})

t.test('what is in files for those who wait is read beside the steps of the first', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ slots: 4, stateFiles: folderOf(folder).files })
  const said: TokenId[][] = []
  for (const family of [1, 2, 3]) said.push((await ask(t, made, promptOf(100, family))).said)
  await made.run(made.engine.close())
  const next = caching({ slots: 4, stateFiles: folderOf(folder).files })
  await ask(t, next, promptOf(20, 9))
  const all = said.map((tokens) => collect(next.client.submit(greedy([...tokens, 5], 4))))
  for (const one of all) t.equal((await next.run(one)).end?.usage.cachedTokens, 103)
  t.match(next.engine.statistics().cache, { disk: { hits: 3 }, ram: { hits: 0 } })
  await next.run(next.engine.close())
})

t.test('nobody but its request waits for a file, and that not for ever', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ slots: 4, stateFiles: folderOf(folder).files })
  const { said } = await ask(t, made, promptOf(100, 1))
  await made.run(made.engine.close())
  const { files } = folderOf(folder)
  const { opened, open: fail } = gate()
  const stale: StateFiles = {
    ...bound(files),
    read: async (_, allocate) => {
      allocate(500)
      await opened
      return undefined
    },
  }
  const next = caching({ slots: 2, stateFiles: stale })
  const late = collect(next.client.submit(greedy([...said, 5], 4)))
  await ask(t, next, promptOf(20, 9))
  t.match(next.engine.statistics(), { waiting: 1, running: 0 })
  fail()
  t.equal((await next.run(late)).end?.usage.cachedTokens, 0)
  t.equal(ramOf(next).bytes, 0, 'the memory of what was not read is not counted')
  await next.run(next.engine.close())
  t.match(leftovers(next), nothingLeft)

  const name = `${'4'.repeat(40)}.state`
  if (spawnSync('mkfifo', [join(folder, name)]).status !== 0) return
  const clock = new SimulatedClock(1e6)
  const slow = folderOf(folder, {}, clock)
  const head = { key: 'k', scope: '', partial: false, tokens: [1], name, bytes: 10 }
  let back: Promise<void> | undefined
  const reading = slow.files.read(
    head,
    (bytes) => new Uint8Array(bytes),
    (end) => void (back = end),
  )
  clock.advance(6000)
  t.equal(await reading, undefined)
  t.match(slow.warnings, [/is ignored: no answer for 5.* s/])
  const listed: StateFile[] = []
  const key = await next.backend.states.key()
  const found = await slow.files.list(key, (files) => listed.push(...files))
  t.same(found, [], 'it is not asked again')
  t.equal(listed.length, 0)
  const writer = openSync(join(folder, name), 'w')
  rmSync(join(folder, name))
  closeSync(writer)
  await back
  await until(() => listed.length > 0)
  t.ok(
    listed.some(({ tokens }) => tokens.length >= 103),
    'until it answers',
  )
})

t.test('what a folder holds that answers late is found once it does', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ stateFiles: folderOf(folder).files })
  const { said } = await ask(t, made, promptOf(200, 1))
  await made.run(made.engine.close())
  const { files } = folderOf(folder)
  const gates: (() => void)[] = []
  const gate = async () => await new Promise<void>((open) => gates.push(open))
  const late: StateFiles = {
    ...bound(files),
    list: async (key, onLate) => {
      void gate().then(async () => onLate?.(await files.list(key)))
      return []
    },
    read: async (file, allocate, onLate) => {
      if (gates.length > 1) return await files.read(file, allocate)
      onLate?.(gate())
      return undefined
    },
  }
  const next = caching({ slots: 1, stateFiles: late })
  const states = () => next.engine.statistics().cache?.disk?.states
  t.equal((await ask(t, next, [...said.slice(0, 40), 5])).cached, 0)
  t.equal(states(), 0)
  gates[0]!()
  await until(() => states() === 1)
  const shorter = await ask(t, next, [...said.slice(0, 120), 5])
  t.equal(shorter.cached, 40, 'what the slot holds')
  t.equal(states(), 1)
  gates[1]!()
  await runUntilIdle(next.clock, next.clock.now() + 1)
  t.equal((await ask(t, next, [...said, 5])).cached, 203)
  t.match(next.engine.statistics().cache?.disk, { hits: 1, failed: 1 })
  await next.run(next.engine.close())
})

t.test('no request that decodes waits for files behind others', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ slots: 4, stateFiles: folderOf(folder).files })
  const said: TokenId[][] = []
  for (const family of [1, 2, 3]) said.push((await ask(t, made, promptOf(100, family))).said)
  await made.run(made.engine.close())
  const { files } = folderOf(folder)
  const { opened, open } = gate()
  const slow: StateFiles = {
    ...bound(files),
    read: async (file, allocate) => {
      await opened
      return await files.read(file, allocate)
    },
  }
  const next = caching({ slots: 2, stateFiles: slow })
  await ask(t, next, promptOf(300, 8))
  const steady = collect(next.client.submit(greedy(promptOf(20, 9), 600)))
  await runUntilIdle(next.clock, next.clock.now() + 100)
  // As many files as there are slots are read ahead: that of the third is not among them.
  const left = said.slice(1).map((tokens, index) => {
    return collect(next.client.submit({ ...greedy([...tokens, 5], 4), id: `leaves ${index}` }))
  })
  await runUntilIdle(next.clock, next.clock.now() + 20)
  for (const index of left.keys()) next.engine.cancel(`leaves ${index}`)
  await next.run(Promise.all(left))
  const late = collect(next.client.submit(greedy([...said[0]!, 5], 4)))
  await runUntilIdle(next.clock, next.clock.now() + 20)
  const steps = next.backend.steps.length
  await runUntilIdle(next.clock, next.clock.now() + 1000)
  t.ok(next.backend.steps.length > steps + 20, 'its tokens come meanwhile')
  t.match(next.engine.statistics(), { waiting: 1, running: 1 })
  open()
  t.equal((await next.run(late)).end?.usage.cachedTokens, 103)
  await next.run(steady)
  await next.run(next.engine.close())
  t.match(leftovers(next), nothingLeft)
})

t.test('what is read ahead stays within the memory, and is read in turn', async (t) => {
  const folder = join(t.testdir(), 'states')
  const made = caching({ slots: 4, stateFiles: folderOf(folder).files })
  const said: TokenId[][] = []
  for (const family of [1, 2, 3, 4]) said.push((await ask(t, made, promptOf(100, family))).said)
  await made.run(made.engine.close())
  const { files } = folderOf(folder)
  let [reads, mostReads, most] = [0, 0, 0]
  const limit = 2000
  const watched: StateFiles = {
    ...bound(files),
    read: async (file, allocate) => {
      mostReads = Math.max(mostReads, ++reads)
      const data = await files.read(file, allocate)
      most = Math.max(most, ramOf(next).bytes)
      reads--
      return data
    },
  }
  const next: Rig = caching({ slots: 4, stateFiles: watched }, limit)
  await ask(t, next, promptOf(20, 9))
  const all = said.map((tokens) => collect(next.client.submit(greedy([...tokens, 5], 4))))
  const ends = (await next.run(Promise.all(all))).map(({ end }) => end?.usage.cachedTokens)
  t.ok(ends.includes(103), 'some are read')
  t.equal(mostReads, 1)
  t.ok(most > 0 && most <= limit, `${most} bytes`)
  await next.run(next.engine.close())
  t.match(leftovers(next), nothingLeft)
})

t.test('what is wrong with the folder is said once, and nobody fails of it', async (t) => {
  const folder = join(t.testdir({ file: 'not a folder' }), 'states')
  const inFile = folderOf(join(folder, '..', 'file'))
  const made = caching({ stateFiles: inFile.files })
  for (const family of [1, 2, 3, 4]) await ask(t, made, promptOf(100, family))
  await made.run(made.engine.close())
  t.match(inFile.warnings, [/cannot be read: EEXIST/, /cannot be written to: EEXIST/])
  t.equal(inFile.warnings.length, 2)

  const { files, warnings } = folderOf(folder)
  const first = caching({ stateFiles: folderOf(folder).files })
  const { said } = await ask(t, first, promptOf(100, 1))
  await first.run(first.engine.close())
  const next = caching({ stateFiles: files })
  await ask(t, next, promptOf(20, 9))
  rmSync(folder, { recursive: true })
  t.equal((await ask(t, next, [...said, 5])).cached, 0, 'its file was removed')
  await next.run(next.engine.close())
  t.ok(readdirSync(folder).length > 0, 'the folder is made again')
  t.same(warnings, [])
  const past = { ...systemClock, now: () => 1000, at: () => () => {} }
  const key = await next.backend.states.key()
  t.ok((await folderOf(folder, { maxAgeMs: 1000 }, past).files.list(key)).length > 0)
  const [name] = readdirSync(folder)
  const bytes = readFileSync(join(folder, name!))
  bytes.write('CLLMST99')
  writeFileSync(join(folder, name!), bytes)
  const version = folderOf(folder)
  await version.files.list(key)
  t.match(version.warnings, [/is ignored: it is of another version of cllm/])
})

t.test('on a full disk the longest unused give way', async (t) => {
  const folder = t.testdir()
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder])
  if (mounted.status !== 0) return void t.pass('only root can mount a small disk')
  try {
    const { files, warnings } = folderOf(folder)
    const head = (token: number) => ({ key: 'k', scope: '', partial: false, tokens: [token] })
    const data = new Uint8Array(30_000).fill(7)
    for (const token of [1, 2, 3]) t.ok(await files.write(head(token), data), `state ${token}`)
    t.match(warnings, [/those longest unused are removed: the disk is full/])
    const left = await files.list('k')
    t.same(left.at(-1)?.tokens, [3])
    t.ok(left.length < 3)
    t.equal(await files.write(head(4), new Uint8Array(100_000)), undefined)
    t.match(warnings.at(-1), /cannot be written to: ENOSPC/)
    t.same(await files.list('k'), left, 'what does not fit at all drives nothing out')
    t.ok(
      readdirSync(folder).every((name) => name.endsWith('.state')),
      'nothing is left half',
    )
    const kept = folderOf(folder, { isKept: true })
    const names = readdirSync(folder)
    t.equal(await kept.files.write(head(5), data), undefined)
    t.same(readdirSync(folder), names, 'what is kept stays')
    t.match(kept.warnings, [/cannot be written to: ENOSPC/])
    t.equal(await kept.files.write(head(6), new Uint8Array(1e6 + 1)), undefined)
    t.match(kept.warnings.at(-1), /expected 1000000 bytes at most, got 1000001/)
  } finally {
    spawnSync('umount', [folder])
  }
})

t.test('two engines share a folder, within its size and age', async (t) => {
  const folder = join(t.testdir(), 'states')
  const one = caching({ stateFiles: folderOf(folder).files })
  const { said } = await ask(t, one, promptOf(100, 1))
  await one.run(one.engine.close())
  const two = caching({ stateFiles: folderOf(folder).files })
  const three = caching({ stateFiles: folderOf(folder, { limitBytes: 2500 }).files })
  await ask(t, three, [...said, 5])
  await ask(t, three, promptOf(120, 2))
  await ask(t, three, promptOf(120, 3))
  await three.run(three.engine.close())
  t.ok(readdirSync(folder).length <= 2)
  const { states = -1 } = three.engine.statistics().cache?.disk ?? {}
  t.equal(states, readdirSync(folder).length, 'what gave way is forgotten')
  t.type((await ask(t, two, [...said, 5])).cached, 'number', 'what is gone is computed')
  await two.run(two.engine.close())
  for (const name of readdirSync(folder)) utimesSync(join(folder, name), 1, 1)
  writeFileSync(join(folder, `${'2'.repeat(40)}.state.${'3'.repeat(12)}.tmp`), 'half')
  utimesSync(join(folder, `${'2'.repeat(40)}.state.${'3'.repeat(12)}.tmp`), 1, 1)
  t.same(await folderOf(folder, { maxAgeMs: 1000 }).files.list('fake fake'), [])
  t.same(readdirSync(folder), [], 'old and unfinished files are removed')
  chmodSync(folder, 0o500)
  t.same(await folderOf(join(folder, 'not', 'there')).files.list('fake fake'), [])
  chmodSync(folder, 0o700)
})

t.test('clients save, restore and erase slots', async (t) => {
  const folder = join(t.testdir({ 'none.bin': 'none' }), 'slots')
  // The thread that reads is there from here on.
  const none = new SlotFolder(join(folder, '..')).read('none.bin', () => {})
  await t.rejects(none, { code: 'invalid_request' })
  const made = caching({ slots: 2, slotFiles: new SlotFolder(folder) }, 0)
  const { said } = await ask(t, made, promptOf(50, 1))
  const save = { action: 'save', filename: 'one.bin' } as const
  t.match(await made.run(made.client.slotAction(0, save)), { slot: 0, tokens: 53 })
  t.match(await made.run(made.client.slotAction(0, { action: 'erase' })), { tokens: 53, bytes: 0 })
  t.equal((await ask(t, made, [...said, 5], { cache: false })).cached, 0)
  const restore = { action: 'restore', filename: 'one.bin' } as const
  const busy = collect(made.client.submit(greedy(promptOf(20, 4), 30)))
  t.match(await made.run(made.client.slotAction(1, restore)), { slot: 1, tokens: 53 })
  await made.run(busy)
  t.equal((await ask(t, made, [...said, 5])).cached, 53)
  for (const [slot, action, code] of [
    [7, restore, 'invalid_request'],
    [0, { action: 'restore', filename: 'two.bin' }, 'invalid_request'],
    [0, { action: 'save', filename: '../one.bin' }, 'invalid_request'],
    [0, { action: 'save', filename: '.hidden' }, 'invalid_request'],
  ] as const) {
    await t.rejects(made.run(made.client.slotAction(slot, action)), { code })
  }
  const other = caching({ id: 'other', slotFiles: new SlotFolder(folder) })
  await t.rejects(other.run(other.client.slotAction(0, restore)), { code: 'invalid_request' })
  const plain = caching()
  await t.rejects(plain.run(plain.client.slotAction(0, restore)), { code: 'unsupported' })
  const lost = caching({ slotFiles: new SlotFolder(join(folder, '..', 'none.bin')) }, 0)
  await ask(t, lost, promptOf(50, 1))
  const message = 'one.bin cannot be written to the folder for slots: EEXIST'
  await t.rejects(lost.run(lost.client.slotAction(0, save)), { code: 'storage_failed', message })
  t.match(leftovers(made), nothingLeft)
})

t.test('a slot gets the tokens of its state, and no error says where its file is', async (t) => {
  const folder = t.testdir({})
  const files = new SlotFolder(folder)
  const about = { key: 'k', scope: '', partial: false }
  await files.write('a.bin', { ...about, tokens: [1, 2] }, Uint8Array.of(1))
  await files.write('b.bin', { ...about, tokens: [3, 4] }, Uint8Array.of(2, 2))
  // Another server's longer one replaces it once its head was read.
  const replace = () => {
    if (existsSync(join(folder, 'b.bin'))) {
      renameSync(join(folder, 'b.bin'), join(folder, 'a.bin'))
    }
  }
  const { head, data } = await files.read('a.bin', replace)
  t.match(head, { tokens: [1, 2] })
  t.same([...data], [1])
  t.match((await files.read('a.bin', () => {})).head, { tokens: [3, 4] })
  if (spawnSync('mkfifo', [join(folder, 'pipe')]).status === 0) {
    await t.rejects(
      files.read('pipe', () => {}),
      { message: 'pipe cannot be used: it is no file' },
    )
  }
  const inNone = new SlotFolder(join(folder, 'a.bin')).read('a.bin', () => {})
  const message = 'a.bin cannot be used: ENOTDIR'
  await t.rejects(inNone, { code: 'invalid_request', message })
})

t.test('nobody waits while the file of a slot is written or read', async (t) => {
  const folder = t.testdir({ 'a.bin.0123456789ab.tmp': 'half', 'b.bin': 'another' })
  utimesSync(join(folder, 'a.bin.0123456789ab.tmp'), 1, 1)
  const files = new SlotFolder(folder)
  const { opened, open } = gate()
  const slow: SlotFiles = {
    write: async (...given) => {
      await opened
      return await files.write(...given)
    },
    read: async (...given) => {
      await opened
      return await files.read(...given)
    },
  }
  const made = caching({ slots: 2, slotFiles: slow }, 0)
  const { said } = await ask(t, made, promptOf(50, 1))
  const saves = ['one.bin', 'two.bin'].map((filename) =>
    made.client.slotAction(0, { action: 'save', filename }),
  )
  // It may be read before it is there.
  const restored = made.client
    .slotAction(1, { action: 'restore', filename: 'one.bin' })
    .catch(() => {})
  await ask(t, made, promptOf(20, 4))
  t.equal(made.backend.operations.filter(({ type }) => type === 'save').length, 1)
  open()
  t.match(await made.run(saves[0]!), { tokens: 53 })
  t.match(await made.run(saves[1]!), { tokens: 53 })
  t.same(readdirSync(folder).toSorted(), ['b.bin', 'one.bin', 'two.bin'], 'no half file is left')
  await made.run(restored)
  await made.run(made.engine.close())
  t.equal(said.length, 54)
})

t.test('of the files that are to be restored, one at a time is read', async (t) => {
  const asked: string[] = []
  let content: Awaited<ReturnType<SlotFiles['read']>> | undefined
  const { opened, open } = gate()
  const slow: SlotFiles = {
    write: async (_, head, data) => {
      content = { head, data, bytes: 9 }
      return 9
    },
    read: async (filename, check) => {
      asked.push(filename)
      if (filename === 'slow.bin') await opened
      check(content!.head)
      return content!
    },
  }
  const made = caching({ slots: 2, slotFiles: slow }, 0)
  await ask(t, made, promptOf(50, 1))
  await made.run(made.client.slotAction(0, { action: 'save', filename: 'one.bin' }))
  const restore = (slot: number, filename: string) =>
    made.client.slotAction(slot, { action: 'restore', filename })
  const busy = collect(made.client.submit(greedy([...promptOf(50, 1), 5], 200)))
  await runUntilIdle(made.clock, made.clock.now() + 100)
  const own = made.engine.statistics().slots.find(({ request }) => request !== undefined)!.slot
  const many = [1, 2, 3, 4].map((name) => restore(own, `${name}.bin`))
  await runUntilIdle(made.clock, made.clock.now() + 100)
  t.same(asked, [], 'none while its slot is in use')
  const other = restore(1 - own, 'slow.bin')
  await runUntilIdle(made.clock, made.clock.now() + 100)
  // The slot is given away while it is read.
  const taker = collect(made.client.submit(greedy(promptOf(90, 3), 300)))
  await made.run(busy)
  await runUntilIdle(made.clock, made.clock.now() + 10)
  t.same(asked, ['slow.bin'])
  open()
  for (const one of await made.run(Promise.all(many))) t.match(one, { slot: own, tokens: 53 })
  await made.run(taker)
  t.match(await made.run(other), { slot: 1 - own, tokens: 53 })
  t.same(asked, ['slow.bin', '1.bin', '2.bin', '3.bin', '4.bin', 'slow.bin'])
  t.match(leftovers(made), nothingLeft)
})

t.test('slots that cannot be cut are cut back to checkpoints', async (t) => {
  const made = caching({ slots: 2, keepMultipleOf: 1000 })
  const system = promptOf(160)
  const admission = async (id: string) => {
    const { timeline } = await made.client.explain(id)
    const found = timeline.find(({ type }) => type === 'admitted')
    return found?.type === 'admitted' ? found.cache : undefined
  }
  const talk = async (id: string, prompt: readonly TokenId[]) => {
    const { cached, said } = await ask(t, made, prompt, { id })
    return { cached, said, cache: await admission(id) }
  }
  const first = await talk('a', [...system, ...promptOf(40, 1)])
  t.match(first, { cached: 0, cache: { from: 'none', why: 'unknown' } })
  t.match(
    await talk('b', [...system, ...promptOf(50, 2)]),
    { cached: 0, cache: { from: 'none', why: 'cannot_be_cut' } },
    'that they part here is seen now',
  )
  t.match(await talk('c', [...system, ...promptOf(60, 3)]), { cached: 160 })
  const rewritten = [...first.said.slice(0, 200), ...promptOf(30, 4)]
  t.match(await talk('d', rewritten), { cached: 176 }, 'its prompt ended 24 tokens behind it')
  t.equal((await talk('e', [...first.said, ...promptOf(9, 5)])).cached, 203, 'a whole state')
  t.match(await talk('f', [...system, 4, 4, 4]), { cached: 160 })
  t.match(ramOf(made), { failed: 0 })

  const shared = promptOf(300, 6)
  const [leader, follower] = [1, 2].map((family) => {
    const request = greedy([...shared, ...promptOf(20, family)], 4)
    return collect(made.client.submit({ ...request, id: `waits ${family}` }))
  })
  await made.run(leader!)
  const { end } = await made.run(follower!)
  t.equal(end?.usage.cachedTokens, 288, 'it waits for a checkpoint of the one that computes')
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('checkpoints survive a restart', async (t) => {
  const folder = join(t.testdir(), 'states')
  const options = { slots: 2, keepMultipleOf: 1000 }
  const made = caching({ ...options, stateFiles: folderOf(folder).files })
  const { said } = await ask(t, made, promptOf(200, 1))
  await made.run(made.engine.close())
  const next = caching({ ...options, stateFiles: folderOf(folder).files })
  const rewritten = [...said.slice(0, 200), ...promptOf(30, 4)]
  t.equal((await ask(t, next, rewritten)).cached, 176, 'its prompt ended 24 tokens behind it')
  t.match(next.engine.statistics().cache, { disk: { hits: 1 }, ram: { hits: 0, failed: 0 } })
  await next.run(next.engine.close())
  t.match(leftovers(next), nothingLeft)
})
