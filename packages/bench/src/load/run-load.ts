import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { defined } from '@cllm/core'
import { toolCall, type Turn } from '../apis/apis.js'
import type { RunRecord } from '../metrics/run-record.js'
import { randomSource } from '../statistics/random.js'
import { isCall } from '../workload/work-item.js'
import { promptText } from '../workload/prompt-text.js'
import type { Answer } from './answer.js'
import { arrivals, type Job, lapOf, makeJob, traceTimes } from './jobs.js'
import type { LoadClock, LoadOptions, RunOptions, Target } from './load-options.js'
import { sendRequest } from './send-request.js'

/** Why a run ended before its load was complete. */
export type Stopped = 'interrupted' | 'target-gone'

/** The measurements of a run. */
export interface LoadResult {
  /** Every request that was sent, ordered by index. */
  readonly records: readonly RunRecord[]
  readonly stopped?: Stopped
  /** How often the dataset began anew. */
  readonly laps: number
  /** Event loop delay of this process, 99th percentile in milliseconds. */
  readonly eventLoopP99Ms: number
}

const realTime: LoadClock = {
  now: () => performance.now(),
  async sleep(milliseconds, signal) {
    await sleep(milliseconds, undefined, { signal }).catch(() => undefined)
  },
}

/** After this many refused connections in a row, the target counts as gone. */
const goneAfter = 10

/** Sends a load to a target and waits until all requests have ended. */
export async function runLoad(
  target: Target,
  load: LoadOptions,
  run: RunOptions,
): Promise<LoadResult> {
  // The measured delay includes the resolution of one millisecond, which is subtracted below.
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const loadRun = new LoadRun(target, load, run)
  await loadRun.done()
  delay.disable()
  const { records, stopped, laps } = loadRun
  return {
    records: records.sort((a, b) => a.index - b.index),
    ...defined({ stopped }),
    laps,
    eventLoopP99Ms: Math.max(0, delay.percentile(99) / 1e6 - 1),
  }
}

class LoadRun {
  readonly records: RunRecord[] = []
  stopped: Stopped | undefined
  readonly #clock: LoadClock
  readonly #begin: number
  readonly #now = () => this.#clock.now() - this.#begin
  readonly #interrupt = new AbortController()
  /** Wakes all clients: nothing more is sent. */
  readonly #end = new AbortController()
  /** Keeps its sessions apart from those of other runs, whose programs the server still knows. */
  readonly #id = randomUUID()
  /** The next item of the dataset. */
  #next = 0
  #sent = 0
  /** Requests that `requests` of the load limits: all but the further ones of programs. */
  #counted = 0
  #refused = 0

  constructor(
    private readonly target: Target,
    private readonly load: LoadOptions,
    private readonly run: RunOptions,
  ) {
    this.#clock = run.clock ?? realTime
    this.#begin = this.#clock.now()
    setMaxListeners(0, this.#interrupt.signal, this.#end.signal)
  }

  get laps(): number {
    return lapOf(Math.max(0, this.#next - 1), this.load)
  }

  async done(): Promise<void> {
    const { signal } = this.run
    const interrupt = () => {
      this.#stop('interrupted')
      this.#interrupt.abort()
    }
    signal.addEventListener('abort', interrupt)
    if (signal.aborted) interrupt()
    const { shape } = this.load
    await (shape.kind === 'closed' ? this.#closed(shape) : this.#timed(this.#times()))
    signal.removeEventListener('abort', interrupt)
  }

  async #closed({ concurrency, rampMs }: { concurrency: number; rampMs: number }): Promise<void> {
    const client = async (number: number) => {
      await this.#until((rampMs * number) / concurrency)
      for (;;) {
        const job = this.#take()
        if (job === undefined) return
        await this.#converse(job, this.#now())
      }
    }
    await Promise.all(Array.from({ length: concurrency }, (_, number) => client(number)))
  }

  async #timed(times: Iterable<number>): Promise<void> {
    const sent: Promise<unknown>[] = []
    for (const time of times) {
      if (time > (this.load.durationMs ?? Infinity)) break
      await this.#until(time)
      const job = this.#take()
      if (job === undefined) break
      // a further turn would come whenever its answer does, and not at the load's times, unless it has its own
      sent.push(isCall(job.item) ? this.#converse(job, time) : this.#send(job, [], time))
    }
    await Promise.all(sent)
  }

  #times(): Iterable<number> {
    const { shape, dataset, seed, requests = 0 } = this.load
    const { firstItem } = this.run
    if (shape.kind === 'open') return arrivals({ ...shape, random: randomSource(seed, 'arrivals') })
    const count = Math.max(requests, (dataset.size ?? 0) - firstItem)
    const timeOf = traceTimes(dataset, count)
    const begin = timeOf(firstItem)
    return Array.from({ length: count }, (_, index) => timeOf(firstItem + index) - begin)
  }

  #stop(reason: Stopped): void {
    this.stopped ??= reason
    this.#end.abort()
  }

  /** Stopping the run wakes every sleeping client at once. */
  async #until(time: number): Promise<void> {
    // Timers have a resolution of 1 ms, and late by up to 1 ms is better than early.
    const milliseconds = Math.ceil(time - this.#now())
    if (milliseconds <= 0) return
    await this.#clock.sleep(milliseconds, this.#end.signal)
  }

  #take(): Job | undefined {
    if (this.#isOver(this.load.requests)) return
    this.#counted++
    return makeJob(this.#next++, this.load, this.run)
  }

  #isOver(requests = Infinity): boolean {
    const { durationMs = Infinity } = this.load
    return this.#counted >= requests || this.#now() >= durationMs || this.stopped !== undefined
  }

  /**
   * Sends a job, and then the follow-up turns of its conversation. A program, whose turns have pauses, goes on to its
   * end or that of the load's time: cut off, only the short ones would be whole, and a server that ends more of them
   * would look slower.
   */
  async #converse(first: Job, intendedMs: number): Promise<void> {
    const history: Turn[] = []
    let job = first
    const program = this.#sent
    let answer = await this.#send(job, history, intendedMs)
    while (answer !== undefined && job.item.next !== undefined) {
      const { next, inputTokens, outputTokens, calls: name } = job.item
      const isCounted = next.pauseMs === undefined
      if (this.#isOver(isCounted ? this.load.requests : undefined)) return
      if (isCounted) this.#counted++
      const { text, thoughts, calls } = answer
      const own = this.load.ownCalls === true ? { thoughts, calls } : undefined
      const called = name && { calls: [toolCall(`call_${history.length}`, name, '{}')] }
      history.push({ question: job.prompt, answer: text, ...(own ?? called) })
      const item = { ...next, inputTokens: inputTokens + outputTokens + next.inputTokens }
      job = { ...job, item, prompt: promptText(item, this.load.seed, job.salt) }
      const time = this.#now() + (next.pauseMs ?? 0)
      await this.#until(time)
      if (this.#isOver()) return
      answer = await this.#send(job, history, time, program)
    }
  }

  /** The answer; undefined if it is missing or incomplete. */
  async #send(
    job: Job,
    history: readonly Turn[],
    intendedMs: number,
    program = this.#sent,
  ): Promise<Answer | undefined> {
    const index = this.#sent++
    const { model } = this.target
    const { temperature, ignoreEos, timeoutMs } = this.load
    const { item, prompt, tenant, tools, slowReadMs, cancelAfter } = job
    const session = isCall(item) ? `${this.#id}/${program}` : undefined
    const settings = { maxTokens: item.outputTokens, temperature, ignoreEos, tenant }
    const ask = { ...item, prompt, history, ...settings, ...defined({ model, session, tools }) }
    const { answer, sentMs, endMs, outcome, failure } = await sendRequest(this.target, ask, {
      now: this.#now,
      signal: this.#interrupt.signal,
      timeoutMs,
      slowReadMs,
      ...defined({ cancelAfter }),
    })
    this.records.push({
      index,
      program,
      goesOn: item.next !== undefined,
      tenant,
      intendedMs,
      sentMs,
      arrivalsMs: answer.arrivalsMs,
      endMs,
      outcome,
      arrivedTokens: answer.arrivedTokens,
      ...defined({ failure, usage: answer.usage }),
      asked: { inputTokens: item.inputTokens, outputTokens: item.outputTokens },
      slowReader: slowReadMs > 0,
    })
    this.#refused = failure?.kind === 'connection' ? this.#refused + 1 : 0
    if (this.#refused >= goneAfter) this.#stop('target-gone')
    this.run.onDone?.()
    return outcome === 'ok' ? answer : undefined
  }
}
