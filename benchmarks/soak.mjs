// Serves many greedy requests for a long time with clients that leave, clients that read slowly and
// kills of the engine's process, and compares each answer with the one that its prompt got alone.
import process from 'node:process'
import { parseArgs } from 'node:util'
import { blockMeans, estimateSlope, randomSource } from '../packages/bench/dist/index.js'
import { complete } from './lib/completion.mjs'
import { childrenOf, residentMb } from './lib/processes.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { divergence, findFaults, isNearTie } from './lib/soak-check.mjs'
import { soakPrompts } from './lib/soak-prompts.mjs'
import { quantile } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'stories15m' },
    minutes: { type: 'string', default: '30' },
    requests: { type: 'string', default: '10000' },
    kills: { type: 'string', default: '5' },
    prompts: { type: 'string', default: '400' },
    cancel: { type: 'string', default: '0.1' },
    slow: { type: 'string', default: '0.05' },
    clients: { type: 'string', default: '24' },
    slots: { type: 'string', default: '8' },
    threads: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
  },
})
const number = (name) => Number(values[name])
const [minutes, requests, kills, seed] = ['minutes', 'requests', 'kills', 'seed'].map(number)

const server = await startServer('cllm', {
  model: values.model,
  slots: number('slots'),
  context: 256,
  extra: ['--threads', values.threads, '--gpu', 'off'],
})
const { url, pid } = server
const prompts = soakPrompts(Math.min(number('prompts'), requests), seed)
const canaries = prompts.map(({ canary }) => canary)
for (const prompt of prompts) {
  const body = { prompt: prompt.text, n_predict: prompt.tokens, cache_prompt: false }
  prompt.expected = await complete(url, { body })
  if (!prompt.expected.ended) throw new Error(`no undisturbed answer: ${prompt.expected.error}`)
  prompt.promptTokens = await tokensOf(prompt.text)
}
const sensitive = prompts.filter(({ canary, expected }) => expected.text.includes(canary)).length
console.error(`${sensitive} of ${prompts.length} prompts have their own canary in the answer`)

const began = performance.now()
const memory = []
const sampling = setInterval(() => {
  memory.push([(performance.now() - began) / 60_000, residentMb(pid)])
}, 1000)
const random = randomSource(seed, 'soak')
const outcomes = []
const killed = []
let order = []
let next = 0
const client = async () => {
  while (next < requests) {
    const index = next++
    const due = (index / requests) * minutes * 60_000
    await pause(Math.max(0, due - (performance.now() - began)))
    if (index >= ((killed.length + 0.5) * requests) / kills) killOne(index)
    if (order.length === 0) order = shuffled(prompts)
    outcomes.push(await run(order.pop()))
    if (outcomes.length % 500 === 0) report()
  }
}
await Promise.all(Array.from({ length: number('clients') }, client))
clearInterval(sampling)
const seconds = (performance.now() - began) / 1000

await pause(1000)
const slots = await (await fetch(new URL('/slots', url))).json()
const health = await (await fetch(new URL('/health?level=full', url))).json()
const result = await judge()
await server.stop()
console.log(JSON.stringify(result, undefined, 2))
process.exitCode = result.passed ? 0 : 1

async function run(prompt) {
  const [a, b, c, d] = [random(), random(), random(), random()]
  const isLeft = a < number('cancel')
  const isSlow = !isLeft && b < number('slow')
  const leaveAfter = isLeft ? Math.floor(c * (prompt.expected.tokens.length + 1)) - 1 : Infinity
  const stream = isLeft || isSlow || d < 0.8
  const body = { prompt: prompt.text, n_predict: prompt.tokens, stream }
  const answer = await complete(url, { body, leaveAfter, restMs: isSlow ? 250 : 0 })
  const faults = findFaults(answer, prompt, canaries)
  if (faults.length > 0) console.error(JSON.stringify({ faults, prompt, answer }))
  return { prompt, answer, faults, isSlow, at: divergence(answer, prompt) }
}

function killOne(index) {
  const [engine] = childrenOf(pid)
  killed.push(index)
  if (engine !== undefined) process.kill(engine, 'SIGKILL')
}

async function judge() {
  const deviating = outcomes.filter(({ faults, at }) => faults.length === 0 && at !== undefined)
  const wrong = []
  for (const { prompt, answer, at } of deviating) {
    if (await isNearTie(url, prompt, answer, at)) continue
    wrong.push({ prompt: prompt.text, at, came: answer.tokens, expected: prompt.expected.tokens })
  }
  const count = (fault) => outcomes.filter(({ faults }) => faults.includes(fault)).length
  const { length: left } = outcomes.filter(({ answer }) => answer.left)
  const warm = memory.filter(([at]) => at > (seconds / 60) * 0.4)
  const slope = estimateSlope(blockMeans(warm, 24))
  // A short run is all warming up.
  const isLong = minutes >= 10
  const rises = isLong && slope.low > 0
  const idle = slots.filter(({ is_processing: busy }) => !busy).length
  const result = {
    seconds: Math.round(seconds),
    requests: outcomes.length,
    left,
    slow: outcomes.filter(({ isSlow }) => isSlow).length,
    kills: killed.length,
    lost: count('lost'),
    miscounted: count('miscounted'),
    crossTalk: count('cross-talk'),
    wrong: wrong.length,
    identicalShare: 1 - deviating.length / outcomes.length,
    nearTies: deviating.length - wrong.length,
    canariesShown: sensitive / prompts.length,
    slotsIdle: `${idle} of ${slots.length}`,
    queued: Number(health.data?.metrics?.scheduler_queue_size),
    residentMb: {
      first: Math.round(memory[0]?.[1]),
      median: Math.round(
        quantile(
          warm.map(([, mb]) => mb),
          0.5,
        ),
      ),
      last: Math.round(memory.at(-1)?.[1]),
      slopePerMinute: slope,
      isJudged: isLong,
    },
    wrongAnswers: wrong.slice(0, 5),
  }
  const faults = ['lost', 'miscounted', 'crossTalk', 'wrong', 'queued'].some(
    (name) => result[name] > 0,
  )
  const passed =
    !faults && idle === slots.length && killed.length === kills && outcomes.length === requests
  return { passed: passed && !rises, ...result }
}

async function tokensOf(content) {
  const response = await fetch(new URL('/tokenize', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ content, add_special: true }),
  })
  return (await response.json()).tokens
}

function shuffled(items) {
  return items
    .map((item) => [random(), item])
    .toSorted(([a], [b]) => a - b)
    .map(([, item]) => item)
}

function report() {
  const faulty = outcomes.filter(({ faults }) => faults.length > 0).length
  const deviating = outcomes.filter(({ at }) => at !== undefined).length
  const minute = ((performance.now() - began) / 60_000).toFixed(1)
  console.error(
    `${minute} min: ${outcomes.length} answers, ${faulty} faulty, ${deviating} deviate, ${killed.length} kills, ${residentMb(pid).toFixed(0)} MB`,
  )
}
