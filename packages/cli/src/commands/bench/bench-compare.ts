import {
  type LoadOptions,
  MachineWatch,
  reachTarget,
  type StartedServer,
  startServer,
  type Target,
} from '@cllm/bench'
import type { CommandIo } from '../command-io.js'
import { compareTargets } from './compare-targets.js'
import { defineCommand } from '../flags/define-command.js'
import { type Values, wrong } from '../flags/flags.js'
import { compareFlags } from './flags/load-flags.js'
import { apiNames, parseTarget, type TargetSpec, readTarget } from './flags/read-target.js'
import { readLoads } from './flags/read-load.js'

type CompareFlags = Values<typeof compareFlags>

/** `cllm bench compare` */
export const benchCompare = defineCommand({
  usage: 'bench compare --target a=URL --target b=URL',
  doc: `
Measures several servers in one run. In each round every target gets the same requests, one target
after another, and every round has fresh prompts. Ratios are relative to the first target, with 95 %
intervals over the rounds.`,
  flags: compareFlags,
  ending: `
A target can also be a command. It is started on a free port and stopped at the end:
  --target 'b=cmd:llama-server -m model.gguf --port {port}' --api b=llama-server

Exit codes: the same as \`cllm bench serve\`.
`,
  async run({ flags }, io) {
    const specs = flags.target.map(parseTarget)
    if (specs.length < 2) throw wrong('--target: expected two or more, as name=URL')
    if (new Set(specs.map(({ name }) => name)).size < specs.length) {
      throw wrong('--target: two targets have the same name')
    }
    const loads = readLoads(flags)
    const apis = apiNames(specs, flags.api)
    const watch = new MachineWatch()
    const started: StartedServer[] = []
    try {
      const targets: Target[] = []
      for (const spec of specs) {
        const url = await urlOf(spec, flags, io, started)
        // In some servers an idle connection occupies a thread, and every client keeps one open.
        const { name } = spec
        const given = { name, url, api: apis.get(name)!, connections: 'new' } as const
        const target = readTarget(given, flags, io.env)
        targets.push(await reachTarget(target, loads[0] as LoadOptions, io.signal))
      }
      const title = 'cllm bench compare'
      return await compareTargets({ title, targets, loads, watch }, flags, io)
    } finally {
      await Promise.all(started.map(({ stop }) => stop()))
    }
  },
})

async function urlOf(
  spec: TargetSpec,
  flags: CompareFlags,
  io: CommandIo,
  started: StartedServer[],
): Promise<URL> {
  if ('url' in spec) return spec.url
  const options = { timeoutMs: flags['start-timeout'], signal: io.signal }
  const server = await startServer(spec.command, options)
  started.push(server)
  return server.url
}
