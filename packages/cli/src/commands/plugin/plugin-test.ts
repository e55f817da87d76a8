import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type OrderDefinition, PluginRegistry } from '@cllm/core'
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
    const found = new PluginRegistry()
    await loadLending([{ use: path }], dirname(path), found)
    const suites = suitesOf(found, await import('@cllm/testing'), flags.runs)
    const counts = { passed: 0, failed: 0 }
    const t = reporter(io.stdout, counts)
    for (const suite of suites) await suite(t)
    const hasSuite = suites.length > 0
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

/** The conformance suites of everything that a plug-in registered. */
function suitesOf(found: PluginRegistry, kit: typeof Testing, runs: number): Suite[] {
  const halves = found.batchings.flatMap(({ name }) =>
    found.orders.map((order) => `${name}+${order.name}`),
  )
  const policies = found.policyNames().filter((name) => !halves.includes(name))
  const builtIn = new PluginRegistry()
  const each = <One>(
    kindOf: (registry: PluginRegistry) => {
      readonly names: readonly string[]
      get(name: string): One | undefined
    },
    test: (t: Testing.TestContext, one: One) => Promise<void>,
  ) => {
    const own = kindOf(found)
    const names = own.names.filter((name) => !kindOf(builtIn).names.includes(name))
    return names.map(
      (name): Suite =>
        async (t) =>
          await test(t, own.get(name)!),
    )
  }
  return [
    ...found.orders.map(
      (order): Suite =>
        (t) =>
          kit.testOrder(t, order, batchings, { runs, ...patienceOf(order) }),
    ),
    ...found.batchings.map(
      (batching): Suite =>
        (t) =>
          kit.testBatching(t, batching, orders, { runs }),
    ),
    ...policies.map(
      (name): Suite =>
        (t) =>
          kit.testPolicy(t, () => found.createPolicy(name), { runs }),
    ),
    ...each(({ routers }) => routers, kit.testRouter),
    ...each(({ modelSchedulers }) => modelSchedulers, kit.testModelScheduler),
    ...each(({ samplers }) => samplers, kit.testSampler),
    ...each(({ proposers }) => proposers, kit.testProposer),
  ]
}

/** For an order that bounds overtaking by a patience: one that a short load can exhaust, and that bound. */
function patienceOf({ options }: OrderDefinition) {
  if (!('patience' in (options?.shape ?? {}))) return {}
  const patience = 50
  const maxOvertaking = (...[ahead, limits]: Parameters<typeof overtakingBound>) =>
    overtakingBound(ahead, limits, patience)
  return { options: { patience }, maxOvertaking }
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
