import { cllmApi } from '../apis/cllm.js'
import { MachineWatch } from '../compare/machine-watch.js'
import { agentFor } from '../load/target.js'
import type { MeasuredRun } from '../report/run-result.js'
import { watchSteps } from '../stages/step-watch.js'
import type { CommandIo } from './command-io.js'
import { compareTargets } from './compare-targets.js'
import { exitCode } from './exit-code.js'
import { flagsHelp, many, parseFlags, showsHelp, wrong } from './flags.js'
import { compareFlags } from './load-flags.js'
import { modelFlags, readModel, type ModelHost } from './model-flags.js'
import { readLoads } from './read-load.js'
import { readPolicy } from './read-simulation.js'

const {
  target: _target,
  api: _api,
  'api-key': _key,
  'start-timeout': _timeout,
  connections: _connections,
  ...loads
} = compareFlags

const flagTable = {
  ...loads,
  ...modelFlags,
  policy: many('NAME', 'Twice or more; options as NAME:{JSON}; the first is the baseline', String),
  plugin: many('NAME', 'Packages or paths of plugins with more policies', String),
} as const

const usage = `Usage: cllm bench policies --model SPEC --policy A --policy B … [flags]

Serves a model as \`cllm serve\` does and measures each policy over HTTP with the same load, in turns: a
policy is put in charge before its run. Ratios are to the first one. The report shows what the engine's
steps were made of.

${flagsHelp(flagTable)}
Exit codes: those of \`cllm bench serve\`.
`

/** `cllm bench policies` */
export async function benchPolicies(
  argv: string[],
  io: CommandIo,
  hostWith: (plugins: readonly string[]) => Promise<ModelHost>,
): Promise<number> {
  if (showsHelp(argv, usage, io)) return exitCode.ok
  const flags = parseFlags(argv, flagTable)
  const host = await hostWith(flags.plugin)
  const policies = flags.policy.map((text) => ({ name: text, ...readPolicy(text, host.policies) }))
  const [first] = policies
  if (first === undefined || policies.length < 2) throw wrong('--policy: expected two or more')
  if (new Set(flags.policy).size < policies.length) throw wrong('--policy: one is given twice')
  const all = readLoads({ ...flags, api: [], 'api-key': undefined, connections: undefined })
  const watch = new MachineWatch()
  const settings = readModel({ ...flags, policy: first.policy })
  const { url, client, close } = await host.serve(settings)
  try {
    const targets = policies.map(({ name }) => ({
      name,
      url,
      api: cllmApi,
      headers: {},
      extraBody: flags['extra-body'],
      agent: agentFor(url, 'reuse'),
    }))
    const comparison = {
      title: `cllm bench policies: ${settings.model}`,
      targets,
      loads: all,
      watch,
      around: async ({ name }: { readonly name: string }, run: () => Promise<MeasuredRun>) => {
        const { policy, policyOptions } = policies.find((one) => one.name === name) ?? first
        await client.setScheduler(policy, policyOptions)
        const { result, steps } = await watchSteps(client, run)
        return { ...result, steps }
      },
    }
    return await compareTargets(comparison, flags, io)
  } finally {
    await close()
  }
}
