import { agentFor, cllmApi, MachineWatch, type MeasuredRun, watchSteps } from '@cllm/bench'
import { defineCommand } from '../command.js'
import { modelHost } from './model-host.js'
import { compareTargets } from './measure-targets.js'
import { many, wrong } from '../flags.js'
import { compareFlags, loadFlags, readLoads } from './flags/load.js'
import { modelFlags, readModel } from './flags/target.js'
import { readPolicies } from './flags/simulation.js'

/** `cllm bench policies` */
export const run = defineCommand({
  usage: 'bench policies --model SPEC --policy A --policy B …',
  doc: `
Serves a model like \`cllm serve\`, with speculation and saved states, and measures each policy over
HTTP under the same load, one after another; the engine switches to a policy before its run. Ratios
are relative to the first policy. The report shows the composition of the engine's steps.`,
  flags: {
    ...loadFlags,
    ...modelFlags,
    rounds: compareFlags.rounds,
    policy: many('NAME', 'At least two; options as NAME:{JSON}; the first is the baseline'),
    plugin: many('NAME', 'Package or path of a plugin that adds policies'),
  },
  ending: '\nExit codes: the same as `cllm bench serve`.\n',
  async run({ flags }, io, openHost: typeof modelHost = modelHost) {
    const host = await openHost(io, flags.plugin)
    const policies = readPolicies(flags.policy, host.policies, flags.slo)
    const [first] = policies
    if (first === undefined || policies.length < 2) throw wrong('--policy: expected two or more')
    if (new Set(flags.policy).size < policies.length)
      throw wrong('--policy: a policy is given twice')
    const loads = readLoads(flags)
    const watch = new MachineWatch()
    const settings = { ...readModel({ ...flags, policy: first.policy }), asServed: true }
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
        loads,
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
  },
})
