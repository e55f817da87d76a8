import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  type BatchingDefinition,
  type ModelSchedulerDefinition,
  type OrderDefinition,
  type PolicyDefinition,
  PluginRegistry,
  type ProposerDefinition,
  type RouterDefinition,
  type SamplerDefinition,
} from '@cllm/core'
import { batchings, orders, overtakingBound } from '@cllm/scheduler'
import type * as Testing from '@cllm/testing'
import { loadLending } from '../../plugins/load-registry.js'
import { type Output, defineCommand } from '../command.js'
import { integer, one, wrong } from '../flags.js'

/** `cllm plugin test` */
export const run = defineCommand({
  usage: 'plugin test <file>',
  doc: `
Loads a plug-in and runs the conformance suite of everything that it registers, with every built-in
half in the case of an order or a batching; then the test beside it, NAME.test.js, if there is one.`,
  flags: { runs: one('N', 'Random loads of each policy', integer(1, 10_000), '20') },
  async run({ flags, words: [file = ''] }, io) {
    const path = resolve(file)
    const found = new Found(await import('@cllm/testing'), flags.runs)
    await loadLending([{ use: path }], dirname(path), found)
    const counts = { passed: 0, failed: 0 }
    const t = reporter(io.stdout, counts)
    for (const suite of found.suites) await suite(t)
    const hasSuite = found.suites.length > 0
    if (hasSuite) io.stdout.write(`${counts.passed} passed, ${counts.failed} failed\n`)
    const own = path.replace(/(\.\w+)$/, '.test$1')
    // Its own framework says how it went, and sets the exit code when it is over.
    if (existsSync(own)) await import(pathToFileURL(own).href)
    else if (!hasSuite) {
      throw wrong(`${path}: there is no suite for what it registers: expected its test, ${own}`)
    }
    return counts.failed === 0 ? 0 : 1
  },
})

type Suite = (t: Testing.TestContext) => Promise<void>

/** Collects what a plug-in registers, with the suite for each. */
class Found extends PluginRegistry {
  readonly suites: Suite[] = []

  constructor(
    private readonly kit: typeof Testing,
    private readonly runs: number,
  ) {
    super()
  }

  override registerOrder(order: OrderDefinition): void {
    super.registerOrder(order)
    const { runs } = this
    // For orders that bound overtaking by a patience: one that a short load can exhaust.
    const patience = 50
    const bound = (...[ahead, limits]: Parameters<typeof overtakingBound>) =>
      overtakingBound(ahead, limits, patience)
    const isPatient = 'patience' in (order.options?.shape ?? {})
    const claims = isPatient ? { runs, options: { patience }, maxOvertaking: bound } : { runs }
    this.suites.push((t) => this.kit.testOrder(t, order, batchings, claims))
  }

  override registerBatching(batching: BatchingDefinition): void {
    super.registerBatching(batching)
    const { kit, runs } = this
    this.suites.push((t) => kit.testBatching(t, batching, orders, { runs }))
  }

  override registerPolicy(policy: PolicyDefinition): void {
    super.registerPolicy(policy)
    const { kit, runs } = this
    const make = () => this.createPolicy(policy.name)
    this.suites.push((t) => kit.testPolicy(t, make, { runs }))
  }

  override registerRouter(router: RouterDefinition): void {
    super.registerRouter(router)
    this.suites.push((t) => this.kit.testRouter(t, router))
  }

  override registerModelScheduler(scheduler: ModelSchedulerDefinition): void {
    super.registerModelScheduler(scheduler)
    this.suites.push((t) => this.kit.testModelScheduler(t, scheduler))
  }

  override registerSampler(sampler: SamplerDefinition): void {
    super.registerSampler(sampler)
    this.suites.push((t) => this.kit.testSampler(t, sampler))
  }

  override registerProposer(proposer: ProposerDefinition): void {
    super.registerProposer(proposer)
    this.suites.push((t) => this.kit.testProposer(t, proposer))
  }
}

/** Writes a line for each check. */
function reporter(
  output: Output,
  counts: { passed: number; failed: number },
  path: readonly string[] = [],
): Testing.TestContext {
  return {
    async test(name, body) {
      const own = [...path, name]
      try {
        await body(reporter(output, counts, own))
      } catch (error) {
        counts.failed++
        const { message } = error as Error
        output.write(`✗ ${own.join(' › ')}\n    ${message.replaceAll('\n', '\n    ')}\n`)
      }
    },
    pass() {
      counts.passed++
      output.write(`✓ ${path.join(' › ')}\n`)
    },
  }
}
