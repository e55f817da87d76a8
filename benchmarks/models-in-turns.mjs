// Three models in room for two: the same agents against `--model-scheduler` lru and turns, in alternation. Each
// program has one model, and calls it several times with what was said before and a pause between.
import { parseArgs } from 'node:util'
import { randomOf } from './lib/prompts.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { median, quantile, sum, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    // NAME=SPEC, three or more of them
    model: {
      type: 'string',
      multiple: true,
      default: ['stories=stories15m', 'chat=tinyllama-1.1b-chat', 'shape=synth.gguf'],
    },
    'max-loaded-models': { type: 'string', default: '2' },
    programs: { type: 'string', default: '40' },
    // programs that begin in a second
    rate: { type: 'string', default: '0.5' },
    // of an answer
    tokens: { type: 'string', default: '16' },
    seeds: { type: 'string', default: '1,2,3' },
  },
})
const names = values.model.map((one) => one.slice(0, one.indexOf('=')))

/** The programs of a seed: when each begins, its model, and the pauses after its calls. */
function programsOf(seed) {
  const random = randomOf(seed)
  let at = 0
  return Array.from({ length: Number(values.programs) }, () => {
    at += (-Math.log(1 - random()) * 1000) / Number(values.rate)
    const calls = 3 + Math.floor(6 * random())
    // 86 % of an agent's next calls come within a second.
    const pauses = Array.from({ length: calls }, () =>
      random() < 0.86 ? 50 + 900 * random() : 1000 + 4000 * random(),
    )
    return {
      at,
      model: names[Math.floor(names.length * random())],
      pauses,
      tokens: Number(values.tokens),
    }
  })
}

/** Milliseconds to the first token of a streamed answer, and its text. */
async function ask(url, model, prompt, tokens) {
  const began = performance.now()
  const body = { model, prompt, max_tokens: tokens, stream: true, ignore_eos: true, temperature: 0 }
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  let firstMs
  for await (const _ of response.body) firstMs ??= performance.now() - began
  return firstMs
}

/** The sum of a counter over the models. */
async function countOf(url, pattern) {
  const text = await (await fetch(`${url}/metrics`)).text()
  return sum([...text.matchAll(new RegExp(`^${pattern} (\\d+)`, 'gm'))].map(([, n]) => Number(n)))
}

async function run(scheduler, seed) {
  const more = values.model.slice(1).flatMap((one) => ['--model', one])
  const room = ['--max-loaded-models', values['max-loaded-models']]
  const extra = [...more, ...room, '--model-scheduler', scheduler]
  const server = await startServer('cllm', {
    model: values.model[0],
    slots: 8,
    context: 2048,
    extra,
  })
  const times = []
  const serve = async ({ at, model, pauses, tokens }, index) => {
    await pause(at)
    let prompt = `Program ${index} of ${model}: what is to be done, step by step?`
    for (const ms of pauses) {
      times.push(await ask(server.url, model, prompt, tokens))
      prompt += ` The tool answered ${Math.round(ms)}. And what is to be done then, and why that?`
      await pause(ms)
    }
  }
  const began = performance.now()
  await Promise.all(programsOf(seed).map(serve))
  const seconds = (performance.now() - began) / 1000
  const swaps = await countOf(server.url, 'cllm_model_swaps_total\\{.*\\}')
  const prefills = 'cllm_step_tokens_total\\{.*kind="prefill".*\\}'
  const computed = await countOf(server.url, prefills)
  await server.stop()
  return { swaps, computed, ttft: sum(times) / times.length, p99: quantile(times, 0.99), seconds }
}

const head = [
  'seed',
  'scheduler',
  'models swapped',
  'prompt tokens computed',
  'mean TTFT ms',
  'TTFT p99 ms',
  'all s',
]
const rows = [head]
const ratios = []
for (const [round, seed] of values.seeds.split(',').map(Number).entries()) {
  const results = {}
  for (const scheduler of round % 2 === 0 ? ['lru', 'turns'] : ['turns', 'lru']) {
    const result = await run(scheduler, seed)
    results[scheduler] = result
    rows.push([
      seed,
      scheduler,
      result.swaps,
      result.computed,
      ...[result.ttft, result.p99, result.seconds].map(Math.round),
    ])
    console.error(rows.at(-1).join('  '))
  }
  const { lru, turns } = results
  ratios.push([turns.swaps / lru.swaps, turns.ttft / lru.ttft, turns.p99 / lru.p99])
}
const of = (index) => {
  const list = ratios.map((one) => one[index])
  return `${median(list).toFixed(2)} (${Math.min(...list).toFixed(2)} to ${Math.max(...list).toFixed(2)})`
}
console.log(`${table(rows)}\n\nturns over lru: swaps ${of(0)}, mean TTFT ${of(1)}, p99 ${of(2)}`)
process.exit(0)
