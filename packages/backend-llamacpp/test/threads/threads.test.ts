import { threadsFor } from '@cllm/backend-llamacpp'
import { SimulatedClock } from '@cllm/core'
import { array, assert, constantFrom, integer, property, record, sample } from 'fast-check'
import t from 'tap'
import { AdaptiveThreads, ThreadTuner } from '../../src/threads/adaptive-threads.js'
import { chooseThreads, MachineLoad } from '../../src/threads/cores.js'
import { openTiny, recordingLogger } from '../open-tiny.js'

/** A machine whose threads wait for the slowest one, and whose neighbours take cores for themselves. */
class Machine {
  readonly clock = new SimulatedClock()
  readonly tuner: ThreadTuner
  busy = 0
  /** Milliseconds that trials cost, against the best number of threads. */
  lost = 0
  passes: number[] = []
  /** How often the load was read. */
  looks = 0

  constructor(
    readonly cores: number,
    readonly passMs: number,
    /** How many times as long a pass takes where a thread shares its core. */
    readonly shared = 5,
    /** What a pass takes, by chance, over what it takes. */
    readonly chance = () => 1,
  ) {
    const start = Math.max(1, cores - 1)
    const range = { start, startAlone: start, most: cores }
    this.tuner = new ThreadTuner({ ...range, clock: this.clock, load: this })
  }

  get freeCores(): number {
    this.looks++
    return this.cores - this.busy
  }

  ms(threads: number, size: number): number {
    const crowded = threads > this.cores - this.busy
    return ((this.passMs * (1 + size / 4)) / threads ** 0.85) * (crowded ? this.shared : 1)
  }

  best(size: number): number {
    const all = Array.from({ length: this.cores }, (_, index) => this.ms(index + 1, size))
    return Math.min(...all)
  }

  run(ms: number, size = 1, isAlone = false): number {
    const end = this.clock.now() + ms
    let threads = 0
    while (this.clock.now() < end) {
      threads = this.tuner.next(size, isAlone)
      const took = this.ms(threads, size) * this.chance()
      this.clock.advance(took)
      this.tuner.observe(threads, size, took)
      this.lost += took - this.best(size)
      this.passes.push(threads)
    }
    return threads
  }
}

t.test('threads follow the machine', async (t) => {
  for (const [cores, passMs] of [
    [2, 20],
    [2, 1],
    [4, 20],
    [8, 5],
    [16, 50],
  ] as const) {
    const machine = new Machine(cores, passMs)
    t.equal(machine.run(3000), cores, `${cores} cores are all used when they are free`)
    machine.lost = 0
    machine.run(60_000)
    t.ok(machine.lost < 600, `trials cost ${machine.lost} ms of a minute`)
    machine.busy = 1
    t.equal(machine.run(1000), cores - 1, 'one is left to a busy neighbour within a second')
    machine.lost = 0
    machine.run(20_000)
    t.ok(machine.lost < 400, `trials beside it cost ${machine.lost} ms of 20 s`)
    machine.busy = 0
    t.equal(machine.run(2000), cores, 'and taken again within two seconds')
  }
})

t.test('short passes that are late by chance show nothing', async (t) => {
  const uneven = sample(constantFrom(1, 1, 1, 1, 1.2, 1.2, 2, 3), { numRuns: 997, seed: 1 })
  let at = 0
  const machine = new Machine(2, 1, 5, () => uneven[at++ % uneven.length]!)
  machine.run(1000)
  for (const isAlone of [true, false]) {
    machine.passes = []
    machine.run(60_000, 1, isAlone)
    const fewer = machine.passes.filter((threads) => threads < 2).length / machine.passes.length
    t.ok(fewer < 0.01, `${fewer} of the passes had one thread`)
  }
  machine.busy = 1
  t.equal(machine.run(1000), 1, 'a neighbour is noticed all the same')
})

t.test('prompts of ever new lengths are compared, too', async (t) => {
  const machine = new Machine(2, 5)
  for (let size = 20; size < 60; size++) machine.run(1, size)
  t.equal(machine.passes.at(-1), 2)
})

t.test('a lone stream does not notice that threads are tried', async (t) => {
  for (const cores of [2, 4, 8]) {
    const machine = new Machine(cores, 20)
    machine.run(3000)
    machine.passes = []
    machine.run(120_000, 1, true)
    t.same([...new Set(machine.passes)], [cores], `${cores} cores, all of them free`)
    machine.busy = 1
    t.equal(machine.run(1000, 1, true), cores - 1, 'it has fewer when its passes become slow')
    machine.passes = []
    machine.run(120_000, 1, true)
    t.same([...new Set(machine.passes)], [cores - 1], 'and no more while others compute')
    machine.busy = 0
    t.equal(machine.run(2000, 1, true), cores, 'until cores are free')
  }
  const many = new Machine(16, 20)
  many.run(3000)
  many.passes = []
  many.run(60_000, 1, true)
  t.ok(many.passes.includes(15), 'one of many threads less is not noticed')
})

t.test('the load is read twice a second, however many passes there are', async (t) => {
  for (const busy of [0, 1]) {
    const machine = new Machine(2, 5)
    machine.run(3000)
    machine.busy = busy
    machine.run(3000, 1, true)
    machine.looks = 0
    machine.passes = []
    machine.run(60_000, 1, true)
    t.ok(machine.looks <= 120, `${machine.looks} times in ${machine.passes.length} passes`)
  }
})

t.test('what proved best beside a neighbour is not told as of a free machine', async (t) => {
  const machine = new Machine(4, 20)
  let busyMs = 0
  let at = 0
  // Counted over the time since the last look, as the system does.
  const load = new MachineLoad(machine.clock, () => {
    const now = machine.clock.now()
    busyMs += machine.busy * (now - at)
    at = now
    return { cores: 4, busyMs, ownMs: 0 }
  })
  Object.defineProperty(machine, 'freeCores', { get: () => load.freeCores })
  machine.run(3000)
  for (let ms = 100; ms < 600; ms += 100) {
    machine.busy = 0
    machine.run(5000 + ms, 1, true)
    machine.busy = 1
    machine.run(2000, 1, true)
    t.match(machine.tuner.best, { threads: 3 }, `${ms}`)
    t.ok(machine.tuner.best!.freeCores < 3.5, `${machine.tuner.best!.freeCores} at ${ms}`)
  }
})

t.test('the number follows the load until another was tried', async (t) => {
  const clock = new SimulatedClock()
  const load = { freeCores: Infinity }
  const tuner = new ThreadTuner({ clock, start: 3, startAlone: 4, most: 4, load })
  const next = (freeCores: number) => {
    load.freeCores = freeCores
    return tuner.next(1, false)
  }
  t.equal(next(Infinity), 3, 'what others compute is not known')
  t.equal(next(3.2), 3, 'the model is being loaded, by two processes')
  t.equal(next(4), 4)
  t.equal(next(1), 4, 'fewer are tried first')
})

t.test('what proved best is what a later process begins with, under the same load', async (t) => {
  const clock = new SimulatedClock()
  const load = { freeCores: 8 }
  const options = { clock, start: 7, startAlone: 8, most: 8, load }
  const calls: number[] = []
  const context = { setThreads: (threads: number) => void calls.push(threads) }
  const decode = { order: [0, 1], tokens: 2, isDecode: true }
  /** Three threads compute fastest. */
  const run = (threads: AdaptiveThreads) => {
    for (let pass = 0; pass < 3000; pass++) {
      threads.before(decode)
      const ms = 10 + 3 * Math.abs((calls.at(-1) ?? options.start) - 3)
      clock.advance(ms)
      threads.after(decode, ms)
    }
  }
  const first = new AdaptiveThreads(context, options)
  t.same(first.learned(), {}, 'nothing yet')
  run(first)
  const learned: unknown = JSON.parse(JSON.stringify(first.learned()))
  t.match(learned, { decodes: { threads: 3, freeCores: 8 } })
  const beginning = (known: unknown, freeCores: number) => {
    const second = new AdaptiveThreads(context, options)
    load.freeCores = freeCores
    calls.length = 0
    second.recall(known)
    t.same(second.learned(), known)
    second.before(decode)
    return calls
  }
  t.same(beginning(learned, 8), [3], 'in the first pass')
  t.same(beginning(learned, 5), [], 'other processes compute now')
  t.same(
    beginning({ decodes: { threads: 500, freeCores: 8 } }, 8),
    [8],
    'no more than there may be',
  )
  for (const wrong of [null, 3, { decodes: 3 }, { prompts: { threads: 0, freeCores: 8 } }]) {
    t.throws(() => first.recall(wrong))
  }
})

t.test('nothing is tried where there is one core', async (t) => {
  const machine = new Machine(1, 5)
  machine.run(5000)
  t.same([...new Set(machine.passes)], [1])
})

t.test('numbers of threads stay in their range, whatever passes take', async (t) => {
  const passes = array(
    record({ size: integer({ min: 1, max: 600 }), ms: integer({ min: 0, max: 500 }) }),
    { maxLength: 300 },
  )
  const free = constantFrom(-1, 0, 0.5, 3.2, Infinity)
  assert(
    property(integer({ min: 1, max: 8 }), free, passes, (most, freeCores, passes) => {
      const clock = new SimulatedClock()
      const start = Math.max(1, most - 1)
      const range = { start, startAlone: start, most }
      const tuner = new ThreadTuner({ ...range, clock, load: { freeCores } })
      for (const { size, ms } of passes) {
        const threads = tuner.next(size, false)
        if (!Number.isInteger(threads) || threads < 1 || threads > most) return false
        clock.advance(ms)
        tuner.observe(threads, size, ms)
      }
      return true
    }),
  )
  t.pass('between 1 and the most')
})

t.test('what other processes leave free', async (t) => {
  const clock = new SimulatedClock()
  const time = { cores: 4, busyMs: 1000, ownMs: 500 }
  const load = new MachineLoad(clock, () => ({ ...time }))
  t.equal(load.freeCores, Infinity, 'not known at first')
  clock.advance(200)
  time.busyMs += 600
  time.ownMs += 400
  t.equal(load.freeCores, 3, '200 ms of work by others in 200 ms')
  time.busyMs += 10_000
  t.equal(load.freeCores, 3, 'the counters are read five times a second at most')
  clock.advance(1000)
  time.busyMs = 1600
  time.ownMs = 1000
  t.equal(load.freeCores, 4, 'never more than there are')
  clock.advance(60_000)
  time.busyMs += 90_000
  t.equal(load.freeCores, 4, 'what was busy while this one was idle may have ended')
  clock.advance(200)
  time.busyMs += 400
  t.equal(load.freeCores, 2, 'and is seen when it has not')
  clock.advance(2000)
  time.busyMs += 6000
  time.ownMs += 4000
  t.equal(load.freeCores, 3, 'a pass of two seconds sees who computes beside it')
  t.ok(new MachineLoad(clock).freeCores > 0, 'the real machine is read')
})

t.test('an idle machine computes on all cores that help from the first pass on', async (t) => {
  const logger = recordingLogger()
  const clock = new SimulatedClock()
  const start = (freeCores: number, engines = 1, asked?: number) => {
    const range = chooseThreads(asked, 4, { cores: 4, engines }, logger)
    return new ThreadTuner({ ...range, clock, load: { freeCores } }).next(1, false)
  }
  t.equal(start(4), 4)
  t.equal(start(3.6), 4)
  t.equal(start(3.2), 3, 'one is left to a process that computes')
  t.equal(start(Infinity), 3, 'nothing is known yet')
  t.equal(start(4, 2), 1, 'engines at once share the cores')
  t.equal(start(4, 1, 2), 2, 'what is set is kept')
})

t.test('threads of a forward pass', async (t) => {
  const alone = (mathCores: number, cores: number) =>
    threadsFor(undefined, mathCores, { cores, engines: 1 })
  t.same(
    [1, 2, 4, 8, 16].map((cores) => alone(cores, cores)),
    [1, 1, 3, 7, 15],
    'a core is left for others',
  )
  t.same(
    [1, 2, 4, 8].map((cores) => alone(cores, 2 * cores)),
    [1, 2, 4, 8],
    'with two logical ones to a core there is room beside',
  )
  t.equal(alone(32, 2), 1, 'a container of two cores on a large machine')
  t.equal(alone(6, 16), 6, 'efficiency cores do not help')
  const shared = (engines: number) => threadsFor(undefined, 8, { cores: 8, engines })
  t.same([1, 2, 3, 7, 8, 100].map(shared), [7, 3, 2, 1, 1, 1], 'engines at once share them')
  t.equal(threadsFor(4, 4, { cores: 4, engines: 3 }), 4, 'what is set is kept')
  t.equal(threadsFor(1, 8, { cores: 8, engines: 1 }), 1)
  t.equal(threadsFor(64, 8, { cores: 16, engines: 1 }), 16, 'up to the cores')
})

t.test('more threads than cores are not taken as they are, with one warning', async (t) => {
  const logger = recordingLogger()
  const backend = await openTiny(t, { threads: 512 }, logger)
  const threads = Number(backend.model.details?.['threads'])
  t.ok(threads >= 1 && threads < 512)
  const warnings = logger.lines.filter(({ level }) => level === 'warn')
  t.match(warnings, [{ message: new RegExp(`threads 512 is more than the ${threads} cores`) }])
  t.equal(warnings.length, 1)
})
