import { type Clock, defined } from '@cllm/core'
import { z } from 'zod'
import type { LogitsContext } from '../native/native-context.js'
import type { StepPass } from '../slots/step-batch.js'
import type { ThreadRange } from './cores.js'

/** The number of threads that proved best, and the cores that other processes left free then. */
const chosen = z.object({ threads: z.int().min(1), freeCores: z.number() })
const chosenOfBoth = z.object({ decodes: chosen, prompts: chosen }).partial()

/** Runs each pass of a context on as many threads as are fastest at the time. */
export class AdaptiveThreads {
  readonly #decodes: ThreadTuner
  readonly #prompts: ThreadTuner
  #threads: number

  /** @param context - computes on `start` threads at first */
  constructor(
    private readonly context: Pick<LogitsContext, 'setThreads'>,
    options: ThreadTunerOptions,
  ) {
    this.#threads = options.start
    this.#decodes = new ThreadTuner(options)
    this.#prompts = new ThreadTuner(options)
  }

  before(pass: StepPass): void {
    const tuner = pass.isDecode ? this.#decodes : this.#prompts
    const threads = tuner.next(pass.tokens, pass.isDecode && pass.order.length === 1)
    if (threads === this.#threads) return
    this.#threads = threads
    this.context.setThreads(threads)
  }

  after(pass: StepPass, ms: number): void {
    const tuner = pass.isDecode ? this.#decodes : this.#prompts
    tuner.observe(this.#threads, pass.tokens, ms)
  }

  /** What proved best, as JSON. */
  learned(): z.output<typeof chosenOfBoth> {
    return defined({ decodes: this.#decodes.best, prompts: this.#prompts.best })
  }

  /** @throws where it is not what {@link learned} returned */
  recall(learned: unknown): void {
    const { decodes, prompts } = chosenOfBoth.parse(learned)
    this.#decodes.best = decodes
    this.#prompts.best = prompts
  }
}

/** A pass that takes this many times as long as those before it is slowed by something. */
const slow = 1.5
/** Passes that show something: one alone may be late by chance. */
const enoughPasses = 2
/** Milliseconds that they take together at least: the shorter passes are, the more they differ by chance. */
const enoughMs = 20
/** A trial that took this many times as long, for a quarter of that time, ends at once. */
const hopeless = 1.3
/** What is tried must be this much quicker to be kept. */
const better = 0.95
/** The share of time that trials may cost, except where the machine's load calls for one. */
const trialShare = 1 / 200
/** Milliseconds between trials of fewer threads, and of more where cores are free. */
const leastWait = { fewer: 10_000, more: 500 }
/** Milliseconds between two questions whether to try another number: reading the load delays a pass. */
const questionMs = 500

/** A lone stream does not notice that a pass takes up to this many times as long. */
const unnoticed = 1.1
/** What proved best holds while as many cores are free, but for this many. */
const sameLoad = 0.5

/** The most weight of a pass in the moving average, when it is as expected and when it is not. */
const gradual = 1 / 8
const sudden = 1 / 2
/** Milliseconds of a pass that has as much; shorter ones have less. */
const wholeMs = 30
/** Passes that differ by more than this from the average show that something has changed. */
const change = 0.3

/** What a {@link ThreadTuner} starts with. */
interface ThreadTunerOptions extends ThreadRange {
  readonly clock: Clock
  /** Cores that other processes leave free. */
  readonly load: { readonly freeCores: number }
}

/**
 * Finds how many threads compute fastest, and follows the machine. llama.cpp's threads wait for each
 * other hundreds of times a pass, so one that shares its core with another process delays them all:
 * with a busy neighbour on one of two cores, one thread is three times as fast as two. What passes
 * cost is measured as they run; another number is tried when passes become slow, when the system
 * counts more free cores than are used, and seldom otherwise. A lone stream would notice the latter, and
 * has none of them.
 *
 * One tuner for decodes and one for prompts, whose best numbers differ.
 */
export class ThreadTuner {
  /** What the last trial showed, here or in an earlier process; undefined: there was none. */
  best: z.output<typeof chosen> | undefined
  /** Milliseconds of a token in passes of each size on each number of threads: moving averages. */
  readonly #costs = new Map<number, { each: number; passes: number }>()
  #threads: number
  #hasBegun = false
  /** Slow passes in a row. */
  #slow = noPasses
  #trial: Trial | undefined
  #next: Record<Direction, number>
  /** When it is asked again what to try, unless passes become slow before. */
  #asksAt = 0
  /** When it is known how many cores are free since the last trial. */
  #notesAt = Infinity
  /** Free cores when more threads were tried last in vain. */
  #freeInVain = -Infinity

  constructor(private readonly options: ThreadTunerOptions) {
    this.#threads = options.start
    const now = options.clock.now()
    this.#next = { fewer: now + leastWait.fewer, more: now }
  }

  /**
   * Threads for the next pass of this many tokens.
   * @param isAlone - whether it is of one stream, which waits for each of its passes
   */
  next(size: number, isAlone: boolean): number {
    if (this.options.most === 1) return 1
    if (this.#trial !== undefined) return this.#trial.threads
    if (!this.#hasBegun) this.#begin()
    const threads = this.#threads
    if (!this.#costs.has(keyOf(threads, size))) return threads
    const direction = this.#direction(isAlone)
    if (direction !== undefined) this.#trial = new Trial(direction, threads)
    return this.#trial?.threads ?? threads
  }

  /**
   * Begins with what is best under the load, once that is seen: while the model was loaded, the process that
   * started this one computed, too.
   */
  #begin(): void {
    const { freeCores } = this.options.load
    const { best } = this
    if (best !== undefined && Math.abs(freeCores - best.freeCores) <= sameLoad) {
      this.#threads = Math.min(best.threads, this.options.most)
    } else if (freeCores < Infinity && freeCores >= this.options.startAlone - 0.5) {
      this.#threads = this.options.startAlone
    } else return
    this.#hasBegun = true
  }

  /** What is to be tried now. */
  #direction(isAlone: boolean): Direction | undefined {
    const threads = this.#threads
    if (threads > 1 && isEnough(this.#slow)) return 'fewer'
    const now = this.options.clock.now()
    if (now < this.#asksAt) return undefined
    this.#asksAt = now + questionMs
    const { load } = this.options
    if (now >= this.#notesAt && load.freeCores < Infinity) {
      this.best = { threads, freeCores: load.freeCores }
      this.#notesAt = Infinity
    }
    if (threads > 1) {
      const isGrave = isAlone && threads / (threads - 1) > unnoticed
      // Also before a trial is due: a look after a long time would tell of all of it.
      const mayTry = !isGrave || load.freeCores < threads - 0.5
      if (now >= this.#next.fewer && mayTry) return 'fewer'
    }
    if (threads === this.options.most) return undefined
    const { freeCores } = load
    const isFreer = freeCores > this.#freeInVain + 0.3
    const mayTry = isFreer || (now >= this.#next.more && !isAlone)
    return freeCores >= threads + 0.5 && mayTry ? 'more' : undefined
  }

  /** Learns how long a pass of `size` tokens took on this many threads. */
  observe(threads: number, size: number, ms: number): void {
    const usualEach = this.#costs.get(keyOf(this.#threads, size))?.each
    const usual = usualEach === undefined ? undefined : usualEach * size
    const each = ms / size
    const key = keyOf(threads, size)
    const known = this.#costs.get(key) ?? { each, passes: 0 }
    this.#costs.set(key, known)
    known.passes++
    const most = Math.abs(each / known.each - 1) > change ? sudden : gradual
    const weight = Math.max(1 / known.passes, most * Math.min(1, (known.each * size) / wholeMs))
    known.each += weight * (each - known.each)
    const trial = this.#trial
    if (trial !== undefined && threads === trial.threads) {
      const isBetter = trial.observe(ms, usual)
      if (isBetter !== undefined) this.#decide(trial, isBetter)
      return
    }
    const isSlow = usual !== undefined && ms > slow * usual
    this.#slow = isSlow ? withPass(this.#slow, ms, usual) : noPasses
  }

  #decide({ direction, threads, lostMs }: Trial, isBetter: boolean): void {
    const now = this.options.clock.now()
    this.#trial = undefined
    this.#asksAt = now
    this.#notesAt = now + questionMs
    this.#hasBegun = true
    this.#slow = noPasses
    this.#freeInVain = -Infinity
    if (isBetter) {
      this.#threads = threads
      // The way back is not better; further on may be.
      this.#next = { ...this.#next, fewer: now + leastWait.fewer, more: now + leastWait.more }
      this.#next[direction] = now
      return
    }
    if (direction === 'more') this.#freeInVain = this.options.load.freeCores
    this.#next[direction] = now + Math.max(leastWait[direction], lostMs / trialShare)
  }
}

type Direction = 'fewer' | 'more'

/** Some passes on another number of threads, compared with what they would have taken. */
class Trial {
  readonly threads: number
  #passes = 0
  #compared = noPasses
  /** Every other one of them: neither half alone shows that the whole is better. */
  readonly #halves = [noPasses, noPasses]
  lostMs = 0

  constructor(
    readonly direction: Direction,
    from: number,
  ) {
    this.threads = direction === 'more' ? from + 1 : from - 1
  }

  /** Learns from a pass; returns whether the other number is better, undefined before that is known. */
  observe(ms: number, usual: number | undefined): boolean | undefined {
    this.#passes++
    if (usual !== undefined) {
      const half = this.#compared.passes % 2
      this.#halves[half] = withPass(this.#halves[half]!, ms, usual)
      this.#compared = withPass(this.#compared, ms, usual)
      this.lostMs += Math.max(0, ms - usual)
    }
    const { passes, ms: took, usual: expected } = this.#compared
    const isInVain = this.#passes - passes >= 4 * enoughPasses
    const isHopeless = took >= enoughMs / 4 && took > hopeless * expected
    if (!isEnough(this.#compared) && !isInVain && !isHopeless) return undefined
    return passes >= enoughPasses && this.#halves.every(isQuicker)
  }
}

/** Some passes: how many, what they took, and what they would have taken. */
interface Passes {
  readonly passes: number
  readonly ms: number
  readonly usual: number
}

const noPasses: Passes = { passes: 0, ms: 0, usual: 0 }

const withPass = (before: Passes, ms: number, usual: number): Passes => ({
  passes: before.passes + 1,
  ms: before.ms + ms,
  usual: before.usual + usual,
})

const isQuicker = ({ ms, usual }: Passes): boolean => ms < better * usual

const isEnough = ({ passes, ms }: Passes): boolean => passes >= enoughPasses && ms >= enoughMs

/** Prompts hardly ever have the same length: sizes above 16 are taken together by half powers of two. */
function keyOf(threads: number, size: number): number {
  const bucket = size <= 16 ? size : 16 + Math.round(2 * Math.log2(size / 16))
  return 128 * threads + bucket
}
