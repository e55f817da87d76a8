import { cpus } from 'node:os'
import { cpuUsage } from 'node:process'
import type { Clock } from '@cllm/core'
import type { LogitsContext } from '../native/native-context.js'
import type { StepPass } from '../slots/step-batch.js'

/** Runs each pass of a context on as many threads as are fastest at the time. */
export class AdaptiveThreads {
  readonly #context: Pick<LogitsContext, 'setThreads'>
  readonly #decodes: ThreadTuner
  readonly #prompts: ThreadTuner
  #threads: number

  /** @param context - computes on `start` threads at first */
  constructor(context: Pick<LogitsContext, 'setThreads'>, options: ThreadTunerOptions) {
    this.#context = context
    this.#threads = options.start
    this.#decodes = new ThreadTuner(options)
    this.#prompts = new ThreadTuner(options)
  }

  before(pass: StepPass): void {
    const tuner = pass.isDecode ? this.#decodes : this.#prompts
    const threads = tuner.next(pass.tokens)
    if (threads === this.#threads) return
    this.#threads = threads
    this.#context.setThreads(threads)
  }

  after(pass: StepPass, ms: number): void {
    const tuner = pass.isDecode ? this.#decodes : this.#prompts
    tuner.observe(this.#threads, pass.tokens, ms)
  }
}

/** A pass that takes this many times as long as those before it is slowed by something. */
const slow = 1.5
/** Slow passes in a row after which fewer threads are tried. */
const slowPasses = 2
/** Compared passes of a trial. */
const trialPasses = 2
/** A trial that took this many times as long ends at once. */
const hopeless = 1.3
/** What is tried must be this much quicker to be kept. */
const better = 0.95
/** The share of time that trials may cost, except where the machine's load calls for one. */
const trialShare = 1 / 200
/** Milliseconds between trials of fewer threads, and of more where cores are free. */
const leastWait = { fewer: 10_000, more: 500 }

/** Weight of a pass in the moving average, when it is as expected and when it is not. */
const gradual = 1 / 8
const sudden = 1 / 2
/** Passes that differ by more than this from the average show that something has changed. */
const change = 0.3

/** What a {@link ThreadTuner} starts with. */
export interface ThreadTunerOptions {
  readonly clock: Clock
  /** Threads at first. */
  readonly start: number
  /** Most threads that help. */
  readonly most: number
  /** Cores that other processes leave free. */
  readonly load: { readonly freeCores: number }
}

/**
 * Finds how many threads compute fastest, and follows the machine. llama.cpp's threads wait for each
 * other hundreds of times a pass, so one that shares its core with another process delays them all:
 * with a busy neighbour on one of two cores, one thread is three times as fast as two. What passes
 * cost is measured as they run; another number is tried when passes become slow, when the system
 * counts more free cores than are used, and seldom otherwise.
 *
 * One tuner for decodes and one for prompts, whose best numbers differ.
 */
export class ThreadTuner {
  readonly #clock: Clock
  readonly #most: number
  readonly #load: { readonly freeCores: number }
  /** Milliseconds of a token in passes of each size on each number of threads: moving averages. */
  readonly #costs = new Map<number, number>()
  #threads: number
  #slow = 0
  #trial: Trial | undefined
  #next: Record<Direction, number>
  /** Free cores when more threads were tried last in vain. */
  #freeInVain = -Infinity

  constructor({ clock, start, most, load }: ThreadTunerOptions) {
    this.#clock = clock
    this.#threads = start
    this.#most = most
    this.#load = load
    this.#next = { fewer: clock.now() + leastWait.fewer, more: clock.now() }
  }

  /** Threads for the next pass of this many tokens. */
  next(size: number): number {
    if (this.#most === 1) return 1
    const threads = this.#threads
    if (this.#trial !== undefined) return this.#trial.threads
    if (!this.#costs.has(keyOf(threads, size))) return threads
    const now = this.#clock.now()
    let direction: Direction | undefined
    if (threads > 1 && (this.#slow >= slowPasses || now >= this.#next.fewer)) direction = 'fewer'
    else if (threads < this.#most) {
      const { freeCores } = this.#load
      const hasRoom = freeCores >= threads + 0.5
      const isFreer = freeCores > this.#freeInVain + 0.3
      if (hasRoom && (isFreer || now >= this.#next.more)) direction = 'more'
    }
    if (direction !== undefined) this.#trial = new Trial(direction, threads)
    return this.#trial?.threads ?? threads
  }

  /** Learns how long a pass of `size` tokens took on this many threads. */
  observe(threads: number, size: number, ms: number): void {
    const usualEach = this.#costs.get(keyOf(this.#threads, size))
    const usual = usualEach === undefined ? undefined : usualEach * size
    const key = keyOf(threads, size)
    const known = this.#costs.get(key) ?? ms / size
    const weight = Math.abs(ms / size / known - 1) > change ? sudden : gradual
    this.#costs.set(key, known + weight * (ms / size - known))
    const trial = this.#trial
    if (trial !== undefined && threads === trial.threads) {
      trial.observe(ms, usual)
      if (trial.isOver) this.#decide(trial)
      return
    }
    this.#slow = usual !== undefined && ms > slow * usual ? this.#slow + 1 : 0
  }

  #decide(trial: Trial): void {
    const { direction, threads, isBetter, lostMs } = trial
    const now = this.#clock.now()
    this.#trial = undefined
    this.#slow = 0
    this.#freeInVain = -Infinity
    if (isBetter) {
      this.#threads = threads
      // The way back is not better; further on may be.
      this.#next = { ...this.#next, fewer: now + leastWait.fewer, more: now + leastWait.more }
      this.#next[direction] = now
      return
    }
    if (direction === 'more') this.#freeInVain = this.#load.freeCores
    this.#next[direction] = now + Math.max(leastWait[direction], lostMs / trialShare)
  }
}

type Direction = 'fewer' | 'more'

/** Some passes on another number of threads, compared with what they would have taken. */
class Trial {
  readonly direction: Direction
  readonly threads: number
  #passes = 0
  #ratios: number[] = []
  lostMs = 0

  constructor(direction: Direction, from: number) {
    this.direction = direction
    this.threads = direction === 'more' ? from + 1 : from - 1
  }

  observe(ms: number, usual: number | undefined): void {
    this.#passes++
    if (usual === undefined) return
    this.#ratios.push(ms / usual)
    this.lostMs += Math.max(0, ms - usual)
  }

  get isOver(): boolean {
    const enough = this.#ratios.length >= trialPasses || this.#passes >= 4 * trialPasses
    return enough || (this.#ratios[0] ?? 0) > hopeless
  }

  get isBetter(): boolean {
    return this.#ratios.length >= trialPasses && Math.max(...this.#ratios) < better
  }
}

/** Prompts hardly ever have the same length: sizes above 16 are taken together by half powers of two. */
function keyOf(threads: number, size: number): number {
  const bucket = size <= 16 ? size : 16 + Math.round(2 * Math.log2(size / 16))
  return 128 * threads + bucket
}

/** Milliseconds between two looks at the machine: its counters tick every 10 ms. */
const interval = 200

/** Time that cores have worked so far, in milliseconds over all of them. */
export interface CoreTime {
  readonly cores: number
  /** For any process. */
  readonly busyMs: number
  /** For this one. */
  readonly ownMs: number
}

/** How much of the machine other processes use, by the system's own count. */
export class MachineLoad {
  readonly #clock: Clock
  readonly #read: () => CoreTime
  #last: { readonly at: number; readonly time: CoreTime }
  #idle = Infinity

  constructor(clock: Clock, read: () => CoreTime = readCoreTime) {
    this.#clock = clock
    this.#read = read
    this.#last = { at: clock.now(), time: read() }
  }

  /** Cores that other processes left free lately; `Infinity` before that is known. */
  get freeCores(): number {
    const at = this.#clock.now()
    const last = this.#last
    if (at - last.at < interval) return this.#idle
    const time = this.#read()
    this.#last = { at, time }
    const others = time.busyMs - last.time.busyMs - (time.ownMs - last.time.ownMs)
    this.#idle = time.cores - Math.max(0, others) / (at - last.at)
    return this.#idle
  }
}

function readCoreTime(): CoreTime {
  const cores = cpus()
  const { user, system } = cpuUsage()
  let busyMs = 0
  for (const { times } of cores) busyMs += times.user + times.nice + times.sys + times.irq
  return { cores: cores.length, busyMs, ownMs: (user + system) / 1000 }
}
