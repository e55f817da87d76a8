// Whole JSON answers and tool calls of one stream: with and without drafts of what the constraint leaves no
// choice about, over free text of as many tokens. The text is not the model's own: a sampler makes it write
// each task's answer, in the tokens of the model's vocabulary.
import { parseArgs } from 'node:util'
import {
  createEngine,
  PluginRegistry,
  silentLogger,
  systemClock,
  systemRandom,
} from '../packages/core/dist/index.js'
import { LocalEngineClient } from '../packages/host/dist/index.js'
import { createLlamaCppBackend } from '../packages/backend-llamacpp/dist/index.js'
import { createPolicy } from '../packages/scheduler/dist/index.js'
import { jsonTasks } from './lib/json-tasks.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    speculative: { type: 'string', default: 'grammar' },
    threads: { type: 'string', default: '2' },
    all: { type: 'boolean', default: false },
    gpu: { type: 'string', default: 'off' },
  },
})

const backend = await createLlamaCppBackend(
  {
    modelPath: values.model,
    modelId: 'bench',
    slots: 1,
    contextSize: 1024,
    batchSize: 512,
    threads: Number(values.threads),
    gpu: values.gpu,
  },
  { clock: systemClock, logger: silentLogger },
)
const { tokenizer } = backend
const prompt = tokenizer.encode('Answer in JSON.')
/** Behind a line, where no vocabulary adds a blank. */
const line = tokenizer.encode('\n', { addBos: false })
const tasks = jsonTasks.map((task) => {
  const tokens = tokenizer.encode(`\n${task.answer}`, { addBos: false }).slice(line.length)
  return { ...task, tokens }
})
const registry = new PluginRegistry()
registry.registerSampler({
  name: 'answer',
  doc: "Lets only the task's answer be drawn.",
  options: { shape: { task: {} }, parse: (options) => options },
  create: ({ task }) => ({
    apply: (logits, { tokens }) => {
      const next = tasks[task].tokens[tokens.length - prompt.length]
      logits.fill(-Infinity)
      logits[next] = 0
    },
  }),
})
const chosen = createPolicy('adaptive+fcfs')
/** Verifies all that is guessed, whatever it costs. */
const eager = {
  name: 'eager',
  plan: (state) => {
    const plan = chosen.plan(state)
    const draftOf = new Map(state.running.map(({ id, draft }) => [id, draft?.tokens ?? 0]))
    return { ...plan, run: plan.run.map((one) => ({ ...one, drafts: draftOf.get(one.id) ?? 0 })) }
  },
  onEvent: (event) => chosen.onEvent?.(event),
}
const policy = values.all ? eager : chosen
const options = { speculative: values.speculative }
const engine = createEngine({ backend, policy, registry, options })
const client = new LocalEngineClient(engine, registry, systemRandom)

/** Milliseconds of an answer, and its steps. */
async function ask(index, isConstrained, speculative) {
  const { tokens, constraint } = tasks[index]
  const sampling = {
    temperature: 0.7,
    ignoreEos: true,
    samplers: [{ name: 'answer', options: { task: index } }],
    ...(isConstrained && { constraint }),
  }
  const request = { prompt: { tokens: prompt }, maxTokens: tokens.length, sampling, speculative }
  const before = engine.statistics().steps
  const began = performance.now()
  const drawn = []
  let end
  for await (const event of client.submit(request)) {
    if (event.type === 'token') drawn.push(event.token)
    if (event.type === 'error') throw new Error(event.error.message)
    if (event.type === 'end') end = event
  }
  const ms = performance.now() - began
  if (drawn.join() !== tokens.join()) throw new Error(`task ${index}: another answer was drawn`)
  const { draftTokens = 0, acceptedTokens = 0 } = end.timings
  return { ms, steps: engine.statistics().steps - before, draftTokens, acceptedTokens }
}

const sides = [
  [false, false],
  [true, false],
  [true, true],
]
for (const index of tasks.keys()) for (const side of sides) await ask(index, ...side)
const results = tasks.map(() => sides.map(() => []))
for (let round = 0; round < Number(values.rounds); round++) {
  for (const index of tasks.keys()) {
    const order = [...sides.keys()]
    for (const side of round % 2 === 0 ? order : order.toReversed()) {
      results[index][side].push(await ask(index, ...sides[side]))
    }
  }
}

const kinds = [...new Set(tasks.map(({ kind }) => kind))]
const heading = ['tasks', 'tokens', 'drafted', 'right', 'steps per token']
const rows = [[...heading, 'JSON ÷ free tok/s', 'with drafts ÷ free']]
for (const kind of kinds) {
  const own = [...tasks.keys()].filter((index) => tasks[index].kind === kind)
  const drafted = own.flatMap((index) => results[index][2])
  const sum = (name) => drafted.reduce((total, one) => total + one[name], 0)
  const tokens = own.reduce((total, index) => total + tasks[index].tokens.length, 0)
  const speed = (side) =>
    median(
      own.flatMap((index) =>
        results[index][side].map(({ ms }, at) => results[index][0][at].ms / ms),
      ),
    ).toFixed(2)
  rows.push([
    kind,
    tokens,
    (sum('draftTokens') / values.rounds).toFixed(0),
    (sum('acceptedTokens') / values.rounds).toFixed(0),
    (sum('steps') / values.rounds / tokens).toFixed(2),
    speed(1),
    speed(2),
  ])
}
console.log(table(rows))
process.exit(0)
