// Every batching × order on simulated time: the real engine and policies, and a machine that takes as
// long for each step as its cost model says. Writes the tables of benchmarks/scheduling.md; the same code
// gives the same figures anywhere.
import { readFile, writeFile } from 'node:fs/promises'
import { batchingNames, orderNames } from '../packages/scheduler/dist/index.js'
import {
  intruder,
  limits,
  loneFollower,
  mixed,
  sharedPrefix,
  tenants,
} from './lib/scheduling-loads.mjs'
import { table } from './lib/statistics.mjs'

const ms = (value) => Math.round(value).toLocaleString('en')
const percent = (share) => `${Math.round(100 * share)} %`

async function intruders() {
  const rows = [['batching', 'largest ITL ms', "the prompt's TTFT ms"]]
  for (const batching of batchingNames) {
    const { gap, wait } = await intruder(`${batching}+fcfs`)
    rows.push([batching, ms(gap), ms(wait)])
  }
  return table(rows)
}

/** What was promised, from the figures of the tables. */
async function targets() {
  const of = (policy) => measured.get(policy)
  const [cold, warm] = [
    await sharedPrefix('adaptive+fcfs', false),
    await sharedPrefix('adaptive+fcfs', true),
  ]
  const [coldLone, warmLone] = [await loneFollower(false), await loneFollower(true)]
  const goodput = of('adaptive+edf').goodput / of('continuous+fcfs').goodput
  const light = of('adaptive+fair').lightWait / of('adaptive+fcfs').lightWait
  const work = cold.prefillTokens / warm.prefillTokens
  return table([
    ['what', 'target', 'measured'],
    ['goodput of `adaptive+edf` ÷ `continuous+fcfs`', '≥ 1.3', goodput.toFixed(1)],
    ['Jain index of `adaptive+fair`', '≥ 0.95', of('adaptive+fair').jain.toFixed(2)],
    ['light tenants: TTFT p99 of `fair` ÷ `fcfs`', '≤ 0.2', light.toFixed(2)],
    ['prefill work, prefixes computed ÷ reused', '≥ 5', work.toFixed(1)],
    ['lone follower: TTFT reused ÷ computed', '≤ 0.1', (warmLone / coldLone).toFixed(2)],
  ])
}

async function prefixes() {
  const rows = [['prefixes', 'prompt tokens computed', 'total ms', 'TTFT p50 ms', 'lone TTFT ms']]
  for (const cache of [false, true]) {
    const { total, prefillTokens, wait } = await sharedPrefix('adaptive+fcfs', cache)
    const lone = ms(await loneFollower(cache))
    rows.push([cache ? 'reused' : 'computed', ms(prefillTokens), ms(total), ms(wait), lone])
  }
  return table(rows)
}

const measured = new Map()

async function everyPair() {
  const rows = [
    [
      'policy',
      'goodput',
      'refused',
      'TTFT p50 ms',
      'short: mean TTFT ms',
      'urgent: mean TTFT ms',
      'worst TTFT ms',
      'ITL p99 ms',
      'tok/s',
      'Jain',
      'light: TTFT p99 ms',
    ],
  ]
  for (const batching of batchingNames) {
    for (const order of orderNames) {
      const policy = `${batching}+${order}`
      const load = await mixed(policy, 1.5)
      const { jain, lightWait } = await tenants(policy)
      measured.set(policy, { ...load, jain, lightWait })
      rows.push([
        `\`${policy}\``,
        percent(load.goodput),
        percent(load.refused),
        ms(load.median),
        ms(load.short),
        ms(load.urgent),
        ms(load.worst),
        ms(load.gap99),
        load.speed.toFixed(1),
        jain.toFixed(2),
        ms(lightWait),
      ])
    }
  }
  return table(rows)
}

const text = `### A 1,200-word prompt arrives among four streams

1,800 tokens, with \`fcfs\`:

${await intruders()}

### A shared prefix

32 requests at once with 512 tokens in common and 40 of their own, 16 tokens out; and a lone request
with the same 512 tokens and 20 of its own, which another slot holds and decodes on. \`adaptive+fcfs\`:

${await prefixes()}

### Every batching × order at 1.5 × overload

One minute of requests at random times, 1.5 times as many as the machine can serve: three short
prompts (30 to 69 tokens) to a long one (400 to 599), 16 to 31 tokens out, five tenants, every fifth
request with priority 12. Goodput is the share of all requests with the first token within
${ms(limits.firstTokenMs)} ms and a mean ITL of at most ${limits.meanGapMs} ms. TTFT is of those served, however late; short are the short
prompts, urgent those with a priority. Jain and light are of another load: a heavy tenant asks for 1.46 times what the machine can
do and nine light ones for 0.06 each, 2 × overload together; Jain's index of what each tenant was
served in the minute over its max-min fair share, and the light tenants' TTFT.

${await everyPair()}

### Against the targets

${await targets()}
`

const path = new URL('scheduling.md', import.meta.url)
const page = await readFile(path, 'utf8')
const [start, end] = ['<!-- measured: begin -->\n', '<!-- measured: end -->\n']
const [before, rest] = page.split(start)
const after = rest.split(end)[1]
await writeFile(path, `${before}${start}\n${text}\n${end}${after}`)
