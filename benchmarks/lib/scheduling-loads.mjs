// The loads of benchmarks/scheduling.mjs, on simulated time, and what is measured of them.
import { nextNumber } from '../../packages/core/dist/index.js'
import { createPolicy } from '../../packages/scheduler/dist/index.js'
import { builtInMachines, simulateLoad } from '../../packages/simulation/dist/index.js'
import { randomOf } from './prompts.mjs'
import { quantile, sum } from './statistics.mjs'

const machine = builtInMachines.get('two-cores')
const slots = 16

async function serve(name, requests, options = {}) {
  const policy = () => createPolicy(name, options)
  return await simulateLoad({ policy, machine, slots, requests })
}

/** Tokens of a prompt: the same for the same number, and another beginning for another one. */
function promptTokens(count, number) {
  let state = Math.imul(number + 1, 0x9e3779b1) >>> 0
  return Array.from({ length: count }, () => {
    state = nextNumber(state)
    return 4 + ((state >>> 16) % 250)
  })
}

/** Milliseconds from arrival to first token; undefined for refused requests. */
const firstToken = ({ request, tokenTimes }) =>
  tokenTimes.length === 0 ? undefined : tokenTimes[0] - request.arrival

const firstTokens = (results) => results.map(firstToken).filter((time) => time !== undefined)

const gaps = ({ tokenTimes }) => tokenTimes.slice(1).map((time, index) => time - tokenTimes[index])

const largestGap = (results) => Math.max(...results.flatMap(gaps))

const meanGap = (result) => sum(gaps(result)) / Math.max(1, gaps(result).length)

/** Four streams decode, and then a prompt of 1,800 tokens (1,200 words) arrives. */
export async function intruder(policy) {
  const stream = (number) => ({ id: `stream ${number}`, arrival: number, maxTokens: 300 })
  const streams = [0, 1, 2, 3].map((number) => {
    return { ...stream(number), prompt: promptTokens(40, number) }
  })
  const prompt = { id: 'prompt', arrival: 2000, prompt: promptTokens(1800, 9), maxTokens: 24 }
  const { results } = await serve(policy, [...streams, prompt])
  const wait = firstToken(results.find(({ request }) => request === prompt))
  return { gap: largestGap(results.filter(({ request }) => request !== prompt)), wait }
}

/** 32 requests with the same 512 tokens before 40 of their own; `cache` or not. */
export async function sharedPrefix(policy, cache) {
  const shared = promptTokens(512, 0)
  const requests = Array.from({ length: 32 }, (_, index) => ({
    id: `${index}`,
    arrival: index,
    prompt: [...shared, ...promptTokens(40, 1 + index)],
    maxTokens: 16,
    cache,
  }))
  const { results, prefillTokens } = await serve(policy, requests)
  const total = Math.max(...results.map(({ tokenTimes }) => tokenTimes.at(-1)))
  return { total, prefillTokens, wait: quantile(firstTokens(results), 0.5) }
}

/** One request, then one with the same 512 tokens while another slot still holds and uses them. */
export async function loneFollower(cache) {
  const shared = promptTokens(512, 0)
  const request = (id, arrival, maxTokens) => {
    const prompt = [...shared, ...promptTokens(20, arrival)]
    return { id, arrival, prompt, maxTokens, cache }
  }
  const { results } = await serve('adaptive+fcfs', [request('a', 0, 200), request('b', 4000, 8)])
  return firstToken(results[1])
}

/** Requests at random times, `perSecond` on average. */
function poisson(random, perSecond, untilMs, make) {
  const requests = []
  for (let now = 0, count = 0; ; count++) {
    now += (-1000 * Math.log(1 - random())) / perSecond
    if (now > untilMs) return requests
    requests.push({ ...make(count), arrival: now })
  }
}

const window = 60_000

/** Requests per second that the machine serves of this kind, all slots busy. */
async function capacity(make) {
  const requests = Array.from({ length: 64 }, (_, index) => {
    return { ...make(index), deadlineMs: undefined, id: `${index}`, arrival: 0 }
  })
  const { results } = await serve('adaptive+fcfs', requests)
  return (1000 * requests.length) / Math.max(...results.map(({ tokenTimes }) => tokenTimes.at(-1)))
}

/** A heavy tenant and nine light ones, at twice what the machine can do. */
export async function tenants(policy) {
  const random = randomOf(7)
  const job = (index) => ({ prompt: promptTokens(60, index), maxTokens: 20 })
  const most = await capacity(job)
  const asked = { heavy: 1.46 * most }
  for (let number = 1; number < 10; number++) asked[`light ${number}`] = 0.06 * most
  let made = 0
  const requests = Object.entries(asked).flatMap(([tenant, perSecond]) =>
    poisson(random, perSecond, window, () => ({ ...job(made++), tenant, id: `${made}` })),
  )
  requests.sort((one, other) => one.arrival - other.arrival)
  const { results } = await serve(policy, requests)
  const served = (tenant) =>
    sum(
      results
        .filter(({ request }) => request.tenant === tenant)
        .map(({ tokenTimes }) => tokenTimes.filter((time) => time <= window).length),
    )
  const names = Object.keys(asked)
  const wanted = names.map((tenant) => {
    return sum(requests.filter((one) => one.tenant === tenant).map(({ maxTokens }) => maxTokens))
  })
  const shares = maxMinShares(wanted, sum(names.map(served)))
  const ratios = names.map((tenant, index) => served(tenant) / shares[index])
  const light = results.filter(({ request }) => request.tenant !== 'heavy')
  return { jain: jain(ratios), lightWait: quantile(firstTokens(light), 0.99) }
}

/** Max-min fair shares: equal, except for tenants that want less. */
function maxMinShares(wanted, total) {
  const shares = wanted.map(() => 0)
  let left = total
  const open = new Set(wanted.keys())
  while (open.size > 0) {
    const level = left / open.size
    const content = [...open].filter((index) => wanted[index] <= level)
    if (content.length === 0) {
      for (const index of open) shares[index] = level
      return shares
    }
    for (const index of content) {
      shares[index] = wanted[index]
      left -= wanted[index]
      open.delete(index)
    }
  }
  return shares
}

const jain = (values) => sum(values) ** 2 / (values.length * sum(values.map((value) => value ** 2)))

export const limits = { firstTokenMs: 3000, meanGapMs: 500 }

/** Three short prompts to a long one, of five tenants, at `overload` times what the machine can do. */
export async function mixed(policy, overload, forMs = window) {
  const random = randomOf(11)
  const job = (index) => {
    const isLong = index % 4 === 3
    const length = isLong ? 400 + ((index * 37) % 200) : 30 + ((index * 13) % 40)
    const priority = index % 5 === 0 ? 12 : 0
    const prompt = promptTokens(length, index)
    return { prompt, maxTokens: 16 + (index % 16), tenant: `${index % 5}`, priority }
  }
  const perSecond = overload * (await capacity(job))
  const requests = poisson(random, perSecond, forMs, (index) => ({
    ...job(index),
    id: `${index}`,
    deadlineMs: limits.firstTokenMs,
  }))
  const { results } = await serve(policy, requests)
  const good = results.filter((result) => {
    const wait = firstToken(result) ?? Infinity
    return wait <= limits.firstTokenMs && meanGap(result) <= limits.meanGapMs
  })
  const waits = firstTokens(results)
  const short = results.filter(({ request }) => request.prompt.length < 100)
  const urgent = results.filter(({ request }) => request.priority > 0)
  const mean = (some) => sum(firstTokens(some)) / firstTokens(some).length
  const answered = results.filter(({ tokenTimes }) => tokenTimes.length > 0)
  const allGaps = answered.flatMap(gaps)
  const end = Math.max(...answered.map(({ tokenTimes }) => tokenTimes.at(-1)))
  return {
    goodput: good.length / results.length,
    refused: results.filter(({ error }) => error !== undefined).length / results.length,
    median: quantile(waits, 0.5),
    short: mean(short),
    urgent: mean(urgent),
    worst: Math.max(...waits),
    gap99: quantile(allGaps, 0.99),
    gap: Math.max(...allGaps),
    speed: (1000 * sum(answered.map(({ tokenTimes }) => tokenTimes.length))) / end,
  }
}
