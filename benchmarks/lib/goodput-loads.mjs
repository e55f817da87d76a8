// The loads of benchmarks/goodput.mjs: a piece of a trace at a share of what a machine can serve.
import { fitDataset, openDataset, simulatePolicy } from '../../packages/bench/dist/index.js'
import { createPolicy } from '../../packages/scheduler/dist/index.js'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { sum } from './statistics.mjs'

const batchSize = 2048
/** Neither is the one that is judged. */
const forCapacity = [
  { policy: 'continuous+fcfs', policyOptions: {} },
  { policy: 'chunked+fcfs', policyOptions: { tokenBudget: 256 } },
]

/** `count` requests of a trace from the one with this index on, the first at 0. */
export function pieceOf(file, from, count) {
  const kind = readFileSync(file, 'utf8').trimStart().startsWith('{') ? 'mooncake' : 'azure'
  const trace = openDataset(`${kind}:${file}`, {})
  const items = Array.from({ length: count }, (_, index) => trace.item((from + index) % trace.size))
  const [{ atMs: begin }] = items
  const moved = items.map((item) => ({ ...item, atMs: Math.max(0, item.atMs - begin) }))
  const name = basename(file).replace(/\.[a-z]+$/, '')
  return { name, size: count, timed: true, item: (index) => moved[index % count] }
}

const itemsOf = (piece) => Array.from({ length: piece.size }, (_, index) => piece.item(index))

/** Simulates a policy; `timeScale` is the factor on the times between requests. */
export async function goodputOf(
  { policy, policyOptions },
  { machine, piece, slots, slo },
  timeScale,
) {
  const longest = Math.max(...itemsOf(piece).map((item) => item.inputTokens + item.outputTokens))
  const { result } = await simulatePolicy({
    policy,
    policyOptions,
    createPolicy: () => createPolicy(policy, policyOptions),
    machine,
    load: {
      shape: { kind: 'trace' },
      dataset: fitDataset(piece, { timeScale }),
      seed: 1,
      requests: piece.size,
    },
    slo,
    slots,
    contextSize: Math.ceil(longest / 1024) * 1024,
    batchSize,
    machines: 1,
    router: 'round-robin',
  })
  return result.summary
}

/** Requests per second that a machine serves of a piece that comes all at once. */
export async function capacityOf(setup) {
  const speeds = []
  for (const candidate of forCapacity) {
    speeds.push((await goodputOf(candidate, { ...setup, slo: {} }, 0)).requestsPerSecond)
  }
  return Math.max(...speeds)
}

/** The factor on a piece's times that makes its mean rate this many requests per second. */
export function scaleTo(piece, perSecond) {
  const { atMs } = piece.item(piece.size - 1)
  return (1000 * piece.size) / atMs / perSecond
}

/**
 * Limits in multiples of what the machine takes: TTFT of a lone request of mean length, ITL of a
 * decode in every slot.
 */
export function limitsFor({ machine, piece, slots }, { ttft, itl }) {
  const items = itemsOf(piece)
  const mean = (of) => sum(items.map(of)) / items.length
  const [input, output] = [mean((item) => item.inputTokens), mean((item) => item.outputTokens)]
  let prefillMs = 0
  for (let context = 0; context < input; context += batchSize) {
    const tokens = Math.round(Math.min(batchSize, input - context))
    prefillMs += machine.stepMs([{ slot: 0, tokens, context }])
  }
  const context = Math.round(input + output / 2)
  const all = Array.from({ length: slots }, (_, slot) => ({ slot, tokens: 1, context }))
  const decodeMs = machine.stepMs(all)
  return {
    ttft: Math.round(ttft * (prefillMs + decodeMs)),
    itl: Math.round(itl * decodeMs * 10) / 10,
  }
}
