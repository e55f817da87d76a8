// Decode speed with and without speculation, alternating in one run: one stream, and sixteen. The
// model's text is not its own: a sampler makes it write each task's answer, so that repetition is
// what it is in real tasks and the speed is that of the model's shape.
import { parseArgs } from 'node:util'
import { createPolicy } from '../packages/scheduler/dist/index.js'
import { speculationTasks } from './lib/speculation-tasks.mjs'
import { median, table } from './lib/statistics.mjs'
import { openWriting, writingFlags } from './lib/written-answers.mjs'

const { values } = parseArgs({
  options: {
    ...writingFlags,
    rounds: { type: 'string', default: '3' },
    streams: { type: 'string', default: '1,16' },
    policy: { type: 'string', default: 'adaptive+fcfs' },
    kinds: { type: 'string', default: 'rewrite,quote,story' },
    tasks: { type: 'string', default: '15' },
    most: { type: 'string', default: '160' },
  },
})

const { backend, engine, answers, write } = await openWriting(values, {
  slots: 16,
  contextSize: 2048,
  policy: createPolicy(values.policy),
  speculative: 'auto',
})

const kinds = values.kinds.split(',')
const tasks = (await speculationTasks(Number(values.tasks))).filter(({ kind }) =>
  kinds.includes(kind),
)
for (const [index, { prompt, answer }] of tasks.entries()) {
  const tokens = backend.tokenizer.encode(answer, { addBos: false }).slice(0, Number(values.most))
  answers.set(index, { prompt: backend.tokenizer.encode(prompt), answer: tokens })
}

const ask = async (task, speculative) =>
  await write(task, { sampling: { topK: 40, topP: 0.9 }, cache: false, speculative })

/**
 * Tokens per second: of one stream after its first token; of several from the start to the last token of
 * all, since streams that end sooner would leave only slow ones to a window that opens later.
 */
async function measure(chosen, speculative) {
  const began = performance.now()
  const all = await Promise.all(chosen.map((task) => ask(task, speculative)))
  const from = all.length === 1 ? all[0].times[0] : began
  const to = Math.max(...all.map(({ times }) => times.at(-1)))
  const tokens = all.reduce((sum, { times }) => sum + times.filter((at) => at > from).length, 0)
  const sum = (name) => all.reduce((total, { timings }) => total + (timings[name] ?? 0), 0)
  return {
    speed: (1000 * tokens) / (to - from),
    drafts: sum('draftTokens'),
    accepted: sum('acceptedTokens'),
    tokens: all.reduce((total, one) => total + one.tokens, 0),
  }
}

const ids = tasks.map((_, index) => index)
const kindOf = (task) => tasks[task].kind
const rows = [
  ['streams', 'kind', 'tasks', 'off tok/s', 'on tok/s', 'on ÷ off', 'drafted', 'accepted'],
]
await measure(ids.slice(0, 1), true) // warms up
for (const streams of values.streams.split(',').map(Number)) {
  const groups = kinds.flatMap((kind) => {
    const own = ids.filter((task) => kindOf(task) === kind)
    if (streams === 1) return own.map((task) => ({ kind, group: [task] }))
    return [{ kind, group: Array.from({ length: streams }, (_, at) => own[at % own.length]) }]
  })
  if (streams > 1) {
    const group = Array.from({ length: streams }, (_, at) => ids[(at * 7) % ids.length])
    groups.push({ kind: 'mixed', group })
  }
  const results = []
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const { kind, group } of groups) {
      const first = await measure(group, round % 2 === 1)
      const second = await measure(group, round % 2 === 0)
      const [off, on] = round % 2 === 0 ? [first, second] : [second, first]
      results.push({ kind, off, on })
    }
  }
  for (const kind of new Set(groups.map((one) => one.kind))) {
    const own = results.filter((result) => result.kind === kind)
    const share = (name) => own.reduce((sum, { on }) => sum + on[name], 0)
    rows.push([
      streams,
      kind,
      groups.filter((one) => one.kind === kind).length,
      median(own.map(({ off }) => off.speed)).toFixed(1),
      median(own.map(({ on }) => on.speed)).toFixed(1),
      median(own.map(({ on, off }) => on.speed / off.speed)).toFixed(3),
      (share('drafts') / share('tokens')).toFixed(2),
      (share('accepted') / Math.max(1, share('drafts'))).toFixed(2),
    ])
  }
}
console.log(table(rows))
await engine.close?.()
process.exit(0)
