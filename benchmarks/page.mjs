// What an open page costs: tokens/s without a viewer, with a client that only reads the live view, and
// with the page itself in a headless Chromium on the same machine, alternating in one run.
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServers } from './lib/servers.mjs'
import { median, quantile, sum, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { chromium } = createRequire(new URL('../packages/cli/package.json', import.meta.url))(
  'playwright-core',
)

const { values } = parseArgs({
  options: {
    ...serverFlags,
    only: { type: 'string', default: 'cllm' },
    browser: { type: 'string', default: '/usr/bin/chromium' },
    concurrency: { type: 'string', default: '8,16' },
    rounds: { type: 'string', default: '5' },
    words: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '64' },
    requests: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now()) },
  },
})
const random = randomOf(Number(values.seed))
/** An engine stops observing this long after the last look; a while more lets the machine come to rest. */
const restMs = 6000

const [server] = await startServers(values)
const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
const browser = await chromium.launch({ executablePath: values.browser, args })

/** Each begins to look, and resolves with what ends it. */
const viewers = {
  none: async () => async () => {},
  'SSE client': async () => {
    const leaving = new AbortController()
    const headers = { accept: 'text/event-stream' }
    const response = await fetch(`${server.url}/admin/live`, { headers, signal: leaving.signal })
    const reading = (async () => {
      for await (const part of response.body) read.bytes += part.length
    })().catch(() => {})
    return async () => {
      leaving.abort()
      await reading
    }
  },
  page: async () => {
    const page = await browser.newPage({ viewport: { width: 1100, height: 760 } })
    await page.goto(`${server.url}/ui/#scheduler`)
    await page.getByText('In force').waitFor()
    return async () => await page.close()
  },
}
const read = { bytes: 0, ms: 0 }

/** `concurrency` clients, each sending its next request when the one before has ended. */
async function closedLoop(concurrency) {
  const began = performance.now()
  const client = async () => {
    const answers = []
    for (let index = 0; index < Number(values.requests); index++) {
      const prompt = text(Number(values.words), random)
      answers.push(await stream(server, { prompt, tokens: Number(values.tokens) }))
    }
    return answers
  }
  const answers = (await Promise.all(Array.from({ length: concurrency }, client))).flat()
  const ms = performance.now() - began
  const itl = answers.flatMap(gaps)
  const tokens = sum(answers.map(({ times }) => times.length))
  return { ms, speed: (1000 * tokens) / ms, itl: median(itl), itl99: quantile(itl, 0.99) }
}

await closedLoop(2)
const names = Object.keys(viewers)
const rows = [['streams', 'viewer', 'tok/s', '÷ none, each round', 'ITL p50 ms', 'ITL p99 ms']]
for (const concurrency of values.concurrency.split(',').map(Number)) {
  const results = new Map(names.map((name) => [name, []]))
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const index of names.keys()) {
      const name = names[(index + round) % names.length]
      const end = await viewers[name]()
      const result = await closedLoop(concurrency)
      results.get(name).push(result)
      if (name === 'SSE client') read.ms += result.ms
      await end()
      await pause(restMs)
    }
  }
  const plain = results.get('none')
  for (const [name, all] of results) {
    const ratios = all.map(({ speed }, round) => speed / plain[round].speed)
    const spread = [0, 0.5, 1].map((share) => quantile(ratios, share).toFixed(3)).join(', ')
    const middle = (figure) => median(all.map((result) => result[figure])).toFixed(1)
    rows.push([concurrency, name, middle('speed'), spread, middle('itl'), middle('itl99')])
  }
}
await browser.close()
await server.stop()
const share = (read.bytes / read.ms).toFixed(1)
const { seed, rounds } = { seed: String(values.seed), rounds: String(values.rounds) }
console.log(`seed ${seed}; ${rounds} rounds; the SSE client read ${share} kB/s`)
console.log("÷ none: the smallest, the median and the largest of the rounds' ratios")
console.log(table(rows))
