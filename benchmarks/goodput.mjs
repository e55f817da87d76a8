// Goodput (requests per second within their limits) of `adaptive` against the best of all other
// batchings and budgets that `cllm tune` tries, in simulation: machines × traces × loads.
import { parseArgs } from 'node:util'
import { candidates, readCosts } from '../packages/bench/dist/index.js'
import { batchings, orders } from '../packages/scheduler/dist/index.js'
import { capacityOf, goodputOf, limitsFor, pieceOf, scaleTo } from './lib/goodput-loads.mjs'
import { table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    trace: { type: 'string', multiple: true, default: [] },
    cost: { type: 'string', multiple: true, default: ['gpu-8b', 'two-cores'] },
    load: { type: 'string', default: '0.7,1,1.5' },
    order: { type: 'string', default: 'fcfs' },
    requests: { type: 'string', default: '400' },
    from: { type: 'string', default: '0' },
    slots: { type: 'string', default: '16' },
    /** Limits as multiples of the machine's own times, TTFT:ITL; or `--ttft` and `--itl` in ms. */
    limits: { type: 'string', default: '6:4' },
    ttft: { type: 'string' },
    itl: { type: 'string' },
  },
})
const slots = Number(values.slots)
const loads = values.load.split(',').map(Number)
const [ttftTimes, itlTimes] = values.limits.split(':').map(Number)
const order = orders.find(({ name }) => name === values.order)
/** Below this share of the best, a cell misses. */
const near = 0.95

const percent = (share) => `${Math.round(100 * share)} %`
const optionsText = (options) =>
  Object.entries(options)
    .map(([name, value]) => ` ${name} ${value}`)
    .join('')

/** The best of the other batchings, and `adaptive` with the limits and without. */
async function cell(setup, timeScale) {
  const all = candidates(setup.slo, 2048, { batchings, orders: [order] })
  const isAdaptive = ({ policy }) => policy.startsWith('adaptive+')
  let best = { perSecond: -1 }
  for (const candidate of all.filter((one) => !isAdaptive(one))) {
    const { goodput } = await goodputOf(candidate, setup, timeScale)
    if (goodput.requestsPerSecond <= best.perSecond) continue
    const name = `${candidate.policy.split('+')[0]}${optionsText(candidate.policyOptions)}`
    best = { name, share: goodput.share, perSecond: goodput.requestsPerSecond }
  }
  const adaptive = []
  for (const candidate of all.filter(isAdaptive)) {
    const { goodput } = await goodputOf(candidate, setup, timeScale)
    adaptive.push({ share: goodput.share, ratio: goodput.requestsPerSecond / best.perSecond })
  }
  return { best, adaptive }
}

const rows = [
  [
    'machine',
    'trace',
    'limits: TTFT, ITL ms',
    'load',
    'best other batching',
    'its goodput',
    '`adaptive` with limits',
    'of best',
    'without',
    'of best',
  ],
]
const ratios = [[], []]
for (const cost of values.cost) {
  const machine = readCosts(cost)
  for (const trace of values.trace) {
    const piece = pieceOf(trace, Number(values.from), Number(values.requests))
    const place = { machine, piece, slots }
    const slo = limitsFor(place, { ttft: ttftTimes, itl: itlTimes })
    if (values.ttft !== undefined) slo.ttft = Number(values.ttft)
    if (values.itl !== undefined) slo.itl = Number(values.itl)
    const capacity = await capacityOf(place)
    for (const load of loads) {
      const setup = { ...place, slo }
      const { best, adaptive } = await cell(setup, scaleTo(piece, load * capacity))
      rows.push([
        machine.name.replace(/^.*\//, ''),
        piece.name,
        `${slo.ttft}, ${slo.itl}`,
        `${load} × ${capacity.toPrecision(3)}/s`,
        best.name,
        percent(best.share),
        ...adaptive.flatMap(({ share, ratio }) => [percent(share), ratio.toFixed(2)]),
      ])
      adaptive.forEach(({ ratio }, index) => ratios[index].push(ratio))
      process.stderr.write(`${rows.at(-1).join(' ')}\n`)
    }
  }
}
console.log(table(rows))
for (const [index, name] of ['with limits', 'without'].entries()) {
  const met = ratios[index].filter((ratio) => ratio >= near).length
  console.log(`\n${name}: ${met} of ${ratios[index].length} at ${near} of the best or more`)
}
