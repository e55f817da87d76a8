// slow: the load tests of benchmarks/ in short, 11 s
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'
import { words } from './inside.js'

const script = (name: string) => new URL(`../../../benchmarks/${name}`, import.meta.url)

/** Runs a script of `benchmarks/` in short and returns the JSON that it prints. */
async function run(name: string, ...args: readonly string[]): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const words = [fileURLToPath(script(name)), ...args]
    const env = plainEnvironment(process.env)
    execFile(process.execPath, words, { env }, (error, stdout, stderr) => {
      if (stdout === '') reject(error ?? new Error(stderr))
      else resolve(JSON.parse(stdout))
    })
  })
}

t.test('a short soak: the engine dies, and nothing is lost, repeated or mixed up', async (t) => {
  const load = ['--minutes', '0.05', '--requests', '40', '--prompts', '8', '--slots', '4']
  t.match(await run('soak.mjs', ...load, '--kills', '1'), {
    passed: true,
    requests: 40,
    kills: 1,
    lost: 0,
    miscounted: 0,
    crossTalk: 0,
    wrong: 0,
    slotsIdle: '4 of 4',
    queued: 0,
  })
})

t.test('what a soak would find', async (t) => {
  interface Answer {
    readonly tokens: readonly number[]
    readonly counts: readonly (readonly [number, number])[]
    readonly text: string
    readonly ended: boolean
    readonly left: boolean
  }
  interface Prompt {
    readonly canary: string
    readonly expected: { readonly text: string; readonly tokens: readonly number[] }
  }
  interface Check {
    findFaults: (answer: Answer, prompt: Prompt, canaries: readonly string[]) => string[]
    divergence: (answer: Answer, prompt: Prompt) => number | undefined
  }
  const { findFaults, divergence } = (await import(script('lib/soak-check.mjs').href)) as Check
  const prompt = { canary: 'grey ant', expected: { text: 'a grey ant ran', tokens: [5, 6, 7] } }
  const good: Answer = {
    tokens: [5, 6, 7],
    counts: [
      [1, 1],
      [2, 2],
      [3, 3],
    ],
    text: 'a grey ant ran',
    ended: true,
    left: false,
  }
  const faultsOf = (answer: Partial<Answer>) =>
    findFaults({ ...good, ...answer }, prompt, ['grey ant', 'pink owl'])
  t.same(faultsOf({}), [])
  t.same(faultsOf({ ended: false }), ['lost'])
  t.same(faultsOf({ ended: false, left: true }), [])
  t.same(faultsOf({ counts: [[1, 2]] }), ['miscounted'])
  t.same(faultsOf({ text: 'a pink owl' }), ['cross-talk'])
  const placeOf = (tokens: number[], left = false) => divergence({ ...good, tokens, left }, prompt)
  t.equal(placeOf([5, 6, 7]), undefined)
  t.equal(placeOf([5, 6, 6, 7]), 2, 'one comes twice')
  t.equal(placeOf([5, 7]), 1, 'one is missing')
  t.equal(placeOf([5, 6]), 2)
  t.equal(placeOf([5, 6], true), undefined, 'the client went')
})

t.test('a crash in the middle of greedy streams', async (t) => {
  // How long it takes says nothing on a machine that runs tests.
  const load = ['--streams', '3', '--rounds', '1', '--tokens', '24', '--threads', '1']
  const result = (await run('crash.mjs', ...load, '--json')) as {
    identical: string
    nearTies: number
    deviating: unknown[]
    rounds: { firstMs: number; loadMs: number }[]
  }
  const identical = Number(/^(\d+) of 3$/.exec(result.identical)?.[1])
  t.equal(identical + result.deviating.length, 3)
  t.ok(identical >= 1, 'at least one stream goes on as if nothing had been')
  t.equal(result.nearTies, result.deviating.length, 'the others part at a near tie')
  t.ok(result.rounds[0]!.firstMs > 0 && result.rounds[0]!.loadMs > 0)
})

t.test('a request whose client leaves is not computed any further, in every phase', async (t) => {
  const whole = { requests: 8, inOneStep: 8 }
  t.match(await run('cancel.mjs', '--requests', '24', '--json'), {
    passed: true,
    slotsIdle: '4 of 4',
    phases: { queued: whole, prefill: whole, decode: whole },
  })
})

t.test('stages: the same work at every stage', async (t) => {
  const report = join(t.testdir(), 'stages.html')
  const work = ['--sequences', '2', '--prompt-tokens', '8', '--output-tokens', '6', '--rounds', '1']
  const model = words('--model stories15m --gpu off --threads 1 --slots 2')
  const printed = await run('stages.mjs', ...model, ...work, '--json', '--report', report)
  const { stages } = printed as { stages: Record<string, number>[] }
  t.same(
    stages.map(({ stage }) => stage),
    [0, 1, 2, 3, 4, 5],
  )
  for (const { stage, wallMs = 0, decodeMs = 0, steps = 0, overheadPerStepUs = -1 } of stages) {
    t.ok(wallMs >= decodeMs && decodeMs > 0)
    t.ok(overheadPerStepUs >= 0)
    // Requests that come over a channel or HTTP may begin a step apart.
    t.ok(steps >= 6 && steps <= 9, `stage ${stage}: ${steps} steps`)
  }
  t.match(await readFile(report, 'utf8'), '<svg')
})
