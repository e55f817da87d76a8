import { type Job, type Served, simulate, type Simulation } from './simulate.js'

type Serving = Pick<Simulation, 'policy' | 'machine' | 'onPlan'>

/** A closed loop: clients that each send their next request when the last one has ended. */
export interface ClosedLoop {
  readonly clients: number
  readonly requestsEach: number
  /** Prompt lengths, in turn. */
  readonly promptTokens: readonly number[]
  readonly maxTokens: number
  /** From the end of an answer to the next request. */
  readonly returnMs: number
}

/** Serves a closed loop in 16 slots. */
export function serveClosedLoop(serving: Serving, load: ClosedLoop): Served[] {
  let made = 0
  const request = (client: number, round: number, arrival: number): Job => {
    const promptTokens = load.promptTokens[made++ % load.promptTokens.length] ?? 1
    return { id: `${client}-${round}`, arrival, promptTokens, maxTokens: load.maxTokens }
  }
  return simulate({
    ...serving,
    slots: 16,
    jobs: Array.from({ length: load.clients }, (_, client) => request(client, 0, client * 0.3)),
    after({ id, endedAt }) {
      const [client = 0, round = 0] = id.split('-').map(Number)
      const arrival = endedAt + load.returnMs + (made % 7) / 7
      return round + 1 < load.requestsEach ? request(client, round + 1, arrival) : undefined
    },
  })
}

/** Four streams decode, and then a prompt of 1,800 tokens arrives. */
export function serveIntruder(serving: Serving): { streams: Served[]; intruder: Served } {
  const streams = [0, 1, 2, 3].map((arrival) => {
    return { id: `stream ${arrival}`, arrival, promptTokens: 40, maxTokens: 400 }
  })
  const intruder = { id: 'intruder', arrival: 2000, promptTokens: 1800, maxTokens: 24 }
  const served = simulate({ ...serving, slots: 16, jobs: [...streams, intruder] })
  const found = served.find(({ id }) => id === 'intruder')
  if (found === undefined) throw new Error('the intruder was not served')
  return { streams: served.filter((other) => other !== found), intruder: found }
}

/** Tokens per second over the whole load. */
export function throughput(served: readonly Served[]): number {
  const tokens = served.reduce((sum, { maxTokens }) => sum + maxTokens, 0)
  return (1000 * tokens) / Math.max(...served.map(({ endedAt }) => endedAt))
}

/** The middle of the times to the first token. */
export function medianFirstToken(served: readonly Served[]): number {
  const sorted = served.map(({ firstTokenMs }) => firstTokenMs).sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

/** The longest time between two tokens of a request. */
export function largestGap(served: readonly Served[]): number {
  return Math.max(...served.flatMap(({ gapsMs }) => gapsMs))
}
