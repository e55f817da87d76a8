// Agents with tools' pauses on a real server: each order in turns, with the same load, on servers of their own. A program is all calls
// of one agent; below 1, `agents` is faster or computes less.
import { execFile } from 'node:child_process'
import { parseArgs, promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { pause, serverFlags, startServer } from './lib/servers.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    slots: { type: 'string', default: '4' },
    'ctx-size': { type: 'string', default: '4096' },
    orders: { type: 'string', default: 'fcfs,agents' },
    seeds: { type: 'string', default: '1,2,3' },
    // `agents`, `agents:0.5` with hints of half of them, or a load without any
    dataset: { type: 'string', default: 'agents' },
    // with `openai-chat` its programs offer tools and bring their results
    api: { type: 'string', default: 'cllm' },
    // of the lengths of Claude Code's sessions
    scale: { type: 'string', default: '0.1' },
    concurrency: { type: 'string', default: '12' },
    // programs and chats together
    requests: { type: 'string', default: '36' },
  },
})
const bin = fileURLToPath(new URL('../packages/cli/bin/cllm.js', import.meta.url))

const extra = values.extra.split(' ').filter((word) => word !== '')

/** Tokens that steps computed of prompts so far. */
async function prefilled({ url }) {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^cllm_step_tokens_total\{[^}]*kind="prefill"[^}]*\} (\S+)/m.exec(text)?.[1] ?? 0)
}

/** On a server of its own: another one would have the prompts of the run before. */
async function measure(order, seed) {
  const server = await startServer('cllm', {
    model: values.model,
    slots: Number(values.slots),
    context: Number(values['ctx-size']),
    extra: ['--order', order, ...extra],
  })
  await pause(2000)
  const before = await prefilled(server)
  const load = ['--dataset', values.dataset, '--length-scale', values.scale, '--seed', seed]
  const size = ['--concurrency', values.concurrency, '--requests', values.requests]
  const target = ['--target', server.url, '--api', values.api]
  const args = [bin, 'bench', 'serve', ...target, '--json', ...load, ...size]
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 28 })
  const computed = (await prefilled(server)) - before
  await server.stop()
  const { summary } = JSON.parse(stdout.trim().split('\n').at(-1))
  const { programMs, aloneMs, ttftMs, outputTokensPerSecond } = summary
  return {
    'program mean': programMs?.mean,
    'program p99': programMs?.p99,
    'chat mean': aloneMs?.mean,
    'TTFT p50': ttftMs?.p50,
    'TTFT p99': ttftMs?.p99,
    'tokens/s': outputTokensPerSecond,
    'prompt tokens computed': computed,
  }
}

const [base, ...others] = values.orders.split(',')
const ratios = new Map(others.map((order) => [order, {}]))
for (const [round, seed] of values.seeds.split(',').entries()) {
  const found = new Map()
  for (const order of round % 2 === 0 ? [base, ...others] : [...others, base]) {
    found.set(order, await measure(order, seed))
    console.error(`seed ${seed} ${order} ${JSON.stringify(found.get(order))}`)
  }
  for (const order of others) {
    for (const [figure, value] of Object.entries(found.get(order))) {
      const list = (ratios.get(order)[figure] ??= [])
      list.push(value / found.get(base)[figure])
    }
  }
}
for (const [order, figures] of ratios) {
  console.log(`${order} over ${base}`)
  const rows = Object.entries(figures).map(([figure, list]) => [
    figure,
    ...list.map((ratio) => ratio.toFixed(2)),
    median(list).toFixed(2),
  ])
  console.log(
    table([['', ...values.seeds.split(',').map((seed) => `seed ${seed}`), 'median'], ...rows]),
  )
}
process.exit(0)
