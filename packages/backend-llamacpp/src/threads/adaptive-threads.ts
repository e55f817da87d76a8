import { type Clock, defined } from '@cllm/core'
import { z } from 'zod'
import type { LogitsContext } from '../native/native-context.js'
import type { StepPass } from '../slots/step-batch.js'
import type { ThreadRange } from './cores.js'

/** The number of threads that was fastest, and the number of cores that other processes left free at that time. */
const chosen = z.object({ threads: z.int().min(1), freeCores: z.number() })
const chosenOfBoth = z.object({ decodes: chosen, prompts: chosen }).partial()

/** Runs each pass of a context on the number of threads that is fastest at the time. */
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

  /** The fastest numbers, as JSON. */
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

/** A pass that takes this many times as long as those before counts as slow. */
const slow = 1.5
/** The fewest passes from which something is concluded, as a single one may be late by chance. */
const enoughPasses = 2
/** The least total time of these passes in milliseconds: the shorter passes are, the more they vary. */
const enoughMs = 20
/** A trial that is slower by this factor for a quarter of that time ends early. */
const hopeless = 1.3
/** Another number is kept if its passes take less than this share of the time. */
const better = 0.95
/** The share of the time that trials may cost, unless the machine's load has changed. */
const trialShare = 1 / 200
/** Milliseconds between trials of fewer threads, and of more where cores are free. */
const leastWait = { fewer: 10_000, more: 500 }
/** The interval in milliseconds at which a trial is considered, as reading the load delays a pass. */
const questionMs = 500

/** A trial beside a lone stream may slow its passes by at most this factor. */
const unnoticed = 1.1
/** The fastest number holds while the number of free cores differs by at most this. */
const sameLoad = 0.5

/** The highest weight of a pass in the moving average. */
const gradual = 1 / 8
const sudden = 1 / 2
/** The duration in milliseconds from which a pass has that weight; shorter ones have less. */
const wholeMs = 30
/** Passes that differ from the average by more than this share show that something has changed. */
const change = 0.3

/** Options of {@link ThreadTuner}. */
interface ThreadTunerOptions extends ThreadRange {
  readonly clock: Clock
  /** Cores that other processes leave free. */
  readonly load: { readonly freeCores: number }
}

/**
 * Finds the number of threads that computes fastest, and follows the machine's load. llama.cpp's threads wait for each
 * other hundreds of times per pass, so one that shares its core with another process delays all: with a busy process on
 * one of two cores, one thread is three times as fast as two. Passes are measured as they run. Another number is tried
 * when passes become slow, when more cores are free than are used, and seldom otherwise; never for the last reason
 * beside a lone stream, which would notice.
 *
 * One tuner for decodes and one for prompts, whose best numbers differ.
 */
export class ThreadTuner {
  /** The result of the last trial, in this or an earlier process; undefined: there was none. */
  best: z.output<typeof chosen> | undefined
  /** Moving averages of the milliseconds per token, by size of the pass and number of threads. */
  readonly #costs = new Map<number, { each: number; passes: number }>()
  #threads: number
  #hasBegun = false
  /** Consecutive slow passes. */
  #slow = noPasses
  #trial: Trial | undefined
  #next: Record<Direction, number>
  /** When a trial is considered next, unless passes become slow before. */
  #asksAt = 0
  /** When the load since the last trial is known. */
  #notesAt = Infinity
  /** The number of free cores when more threads were last tried in vain. */
  #freeInVain = -Infinity

  constructor(private readonly options: ThreadTunerOptions) {
    this.#threads = options.start
    const now = options.clock.now()
    this.#next = { fewer: now + leastWait.fewer, more: now }
  }

  /**
   * Threads for the next pass of this many tokens.
   * @param isAlone - whether the pass is for a lone stream, which waits for each of its passes
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
   * Chooses the number to begin with once the load is known. That is not at the start, as the process that started this
   * one was busy while the model was loaded.
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

  /** Whether to try more or fewer threads now. */
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
      // Read even before a trial is due, as each reading covers the time since the last one.
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
      // Going back cannot be better; going further may be.
      this.#next = { ...this.#next, fewer: now + leastWait.fewer, more: now + leastWait.more }
      this.#next[direction] = now
      return
    }
    if (direction === 'more') this.#freeInVain = this.options.load.freeCores
    this.#next[direction] = now + Math.max(leastWait[direction], lostMs / trialShare)
  }
}

type Direction = 'fewer' | 'more'

/** A trial: some passes on another number of threads, compared with their expected times. */
class Trial {
  readonly threads: number
  #passes = 0
  #compared = noPasses
  /** The passes in two alternating halves: both must be faster. */
  readonly #halves = [noPasses, noPasses]
  lostMs = 0

  constructor(
    readonly direction: Direction,
    from: number,
  ) {
    this.threads = direction === 'more' ? from + 1 : from - 1
  }

  /** Adds a pass; returns whether the other number is faster, undefined while that is unknown. */
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

/** Sums over some passes: their number, their time, and their expected time. */
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

/** Sizes above 16 are grouped by half powers of two, as prompts hardly ever have the same length. */
function keyOf(threads: number, size: number): number {
  const bucket = size <= 16 ? size : 16 + Math.round(2 * Math.log2(size / 16))
  return 128 * threads + bucket
}
