// How soon a slot is free when a client leaves: requests are left while they wait, within their
// prompts and within their answers, and the steps are counted that still compute them.
import { parseArgs } from 'node:util'
import { createLlamaCppBackend } from '../packages/backend-llamacpp/dist/index.js'
import { availableMemory } from '../packages/cli/dist/engine/available.js'
import { resolveModel } from '../packages/cli/dist/models/resolve-model.js'
import {
  createEngine,
  PluginRegistry,
  silentLogger,
  systemClock,
  systemRandom,
} from '../packages/core/dist/index.js'
import { LocalEngineClient } from '../packages/host/dist/index.js'
import { createPolicy } from '../packages/scheduler/dist/index.js'
import { randomOf, text } from './lib/prompts.mjs'
import { quantile, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'stories15m' },
    requests: { type: 'string', default: '1000' },
    slots: { type: 'string', default: '4' },
    threads: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  },
})
const [requests, slots, threads] = ['requests', 'slots', 'threads'].map((name) =>
  Number(values[name]),
)
const { path: modelPath } = await resolveModel(values.model)
const backend = await createLlamaCppBackend(
  // Prompts take several steps.
  { modelPath, slots, contextSize: 256, batchSize: 32, threads, gpu: 'off' },
  { clock: systemClock, logger: silentLogger, availableMemory },
)
const engine = createEngine({ backend, policy: createPolicy('adaptive+fcfs', {}) })
const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
const random = randomOf(1)
const sampling = { temperature: 0, ignoreEos: true }

let victim
engine.observe({ onStepStart: watchStep })

function watchStep(parts) {
  if (victim === undefined) return
  const part = parts.find(({ request }) => request.id === victim.id)
  if (victim.leftAt === undefined) {
    // The client leaves while the step is computed.
    const { leave } = victim
    if (part !== undefined && victim.isDue(part)) setImmediate(() => leave())
    return
  }
  if (part !== undefined) victim.late++
  if (victim.freeAt !== undefined) return
  const holds = engine.statistics().slots.some(({ request }) => request === victim.id)
  if (!holds) victim.freeAt = performance.now()
}

/** Keeps a slot busy until it is stopped. */
function keepBusy(controller) {
  const stay = async () => {
    while (!controller.signal.aborted) {
      const request = { prompt: { text: text(8, random) }, maxTokens: 200, sampling }
      try {
        for await (const _ of client.submit(request, controller)) continue
      } catch {
        return
      }
    }
  }
  return stay()
}

const phases = {
  queued: { busy: slots, words: 8, isDue: () => false },
  prefill: { busy: slots - 1, words: 120, isDue: ({ isDecode }) => !isDecode },
  decode: { busy: slots - 1, words: 8, isDue: ({ isDecode }) => isDecode },
}

async function leaveIn(phase, index) {
  const { words, isDue } = phases[phase]
  const controller = new AbortController()
  const leave = () => {
    if (mine.leftAt !== undefined) return
    mine.leftAt = performance.now()
    controller.abort()
  }
  const mine = {
    id: `${phase}-${index}`,
    late: 0,
    leave,
    isDue,
    leftAt: undefined,
    freeAt: undefined,
  }
  victim = mine
  const request = { id: mine.id, prompt: { text: text(words, random) }, maxTokens: 60, sampling }
  try {
    for await (const event of client.submit(request, controller)) {
      if (event.type === 'start' && phase === 'queued') setImmediate(leave)
    }
  } catch {
    // as it left
  }
  while (mine.freeAt === undefined) await new Promise(setImmediate)
  const { state } = await client.explain(mine.id)
  victim = undefined
  return { late: mine.late, state, ms: mine.freeAt - mine.leftAt }
}

const results = {}
for (const [phase, { busy }] of Object.entries(phases)) {
  const controller = new AbortController()
  const others = Array.from({ length: busy }, () => keepBusy(controller))
  while (engine.statistics().running < busy) await new Promise(setImmediate)
  const all = []
  const count = Math.ceil(requests / 3)
  for (let index = 0; index < count; index++) all.push(await leaveIn(phase, index))
  results[phase] = {
    requests: count,
    inOneStep: all.filter(({ late, state }) => late === 0 && state === 'cancelled').length,
    medianMs: quantile(
      all.map(({ ms }) => ms),
      0.5,
    ),
    maxMs: Math.max(...all.map(({ ms }) => ms)),
  }
  controller.abort()
  await Promise.all(others)
}
while (engine.statistics().running > 0) await new Promise(setImmediate)
const { slots: after } = engine.statistics()
const idle = after.filter(({ state }) => state === 'idle').length
await client.close()

const rows = Object.entries(results)
const passed =
  idle === slots && rows.every(([, { requests: count, inOneStep }]) => count === inOneStep)
console.log(
  values.json
    ? JSON.stringify({ passed, slotsIdle: `${idle} of ${slots}`, phases: results })
    : `${table([
        ['phase', 'left', 'free by the next step', 'ms, median', 'ms, max'],
        ...rows.map(([phase, { requests: count, inOneStep, medianMs, maxMs }]) => [
          phase,
          count,
          inOneStep,
          medianMs.toFixed(2),
          maxMs.toFixed(2),
        ]),
      ])}\n\n${idle} of ${slots} slots idle at the end: ${passed ? 'passed' : 'failed'}`,
)
process.exitCode = passed ? 0 : 1
