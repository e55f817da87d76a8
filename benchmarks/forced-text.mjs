// Whole JSON answers and tool calls of one stream: with and without drafts of what the constraint leaves no
// choice about, over free text of as many tokens. The text is not the model's own: a sampler makes it write
// each task's answer, in the tokens of the model's vocabulary.
import { parseArgs } from 'node:util'
import { createPolicy } from '../packages/scheduler/dist/index.js'
import { jsonTasks } from './lib/json-tasks.mjs'
import { median, table } from './lib/statistics.mjs'
import { openWriting, writingFlags } from './lib/written-answers.mjs'

const { values } = parseArgs({
  options: {
    ...writingFlags,
    rounds: { type: 'string', default: '5' },
    speculative: { type: 'string', default: 'grammar' },
    all: { type: 'boolean', default: false },
    cpu: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
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
const { backend, engine, answers, write } = await openWriting(values, {
  slots: 1,
  contextSize: 1024,
  policy: values.all ? eager : chosen,
  speculative: values.speculative,
})
const { tokenizer } = backend
const prompt = tokenizer.encode('Answer in JSON.')
/** Behind a line, where no vocabulary adds a blank. */
const line = tokenizer.encode('\n', { addBos: false })
const wanted = jsonTasks.filter(({ kind }) => (values.only ?? kind) === kind)
const tasks = wanted.map((task) => {
  const tokens = tokenizer.encode(`\n${task.answer}`, { addBos: false }).slice(line.length)
  return { ...task, tokens }
})
for (const [index, { tokens }] of tasks.entries()) answers.set(index, { prompt, answer: tokens })

/** With `--cpu` those that this process computed: on a busy machine, with `--threads 1`. */
function now() {
  const { user, system } = process.cpuUsage()
  return values.cpu ? (user + system) / 1000 : performance.now()
}

/** Milliseconds of an answer, and its steps. */
async function ask(index, isConstrained, speculative) {
  const { constraint } = tasks[index]
  const before = engine.statistics().steps
  const began = now()
  const { timings } = await write(index, {
    sampling: isConstrained ? { constraint } : {},
    speculative,
  })
  const ms = now() - began
  const { draftTokens = 0, acceptedTokens = 0 } = timings
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
