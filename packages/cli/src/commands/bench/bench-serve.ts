import { setTimeout as sleep } from 'node:timers/promises'
import {
  type LoadOptions,
  type MeasuredRun,
  reachTarget,
  repeatTable,
  runTable,
  MachineWatch,
  type StartedServer,
  startServer,
  type Target,
} from '@cllm/bench'
import { exitCodeOf, writeFiles } from './output.js'
import { defineCommand } from '../command.js'
import { wrong } from '../flags.js'
import { serveFlags, readLoads, compareFlags } from './flags/load.js'
import { measureRun, warmUp, compareTargets } from './measure-targets.js'
import { readTarget, apiNames, parseTarget } from './flags/target.js'

/** `cllm bench serve` */
export const run = defineCommand({
  usage: 'bench serve --target URL [--api NAME]',
  doc: `
Sends load to a server and measures latency and throughput as its clients see them. Every run has
fresh prompts.`,
  flags: serveFlags,
  ending: `
Exit codes: 0 measured, 1 no request succeeded or the target cannot be reached, 2 wrong flags or
files, 3 the target stopped during a run, 130 interrupted. Partial results are printed.
`,
  async run({ flags }, io) {
    const { target: url, slo, warmup, repeats } = flags
    if (url === undefined) throw wrong('--target is missing: expected the URL of a server')
    const loads = readLoads(flags)
    const load = loads[0] as LoadOptions
    const api = flags.api.at(-1) ?? 'cllm'
    const given = readTarget({ name: url.host, url }, api, 'reuse', flags, io.env)
    const target = await reachTarget(given, load, io.signal)
    if (!flags.json) io.stdout.write(`seed ${load.seed}\n\n`)
    await warmUp(target, load, warmup, io)

    const runs: MeasuredRun[] = []
    const isOver = () => (runs.at(-1)?.result.stopped ?? null) !== null
    for (const [level, each] of loads.entries()) {
      for (let repeat = 1; repeat <= repeats && !isOver(); repeat++) {
        if (runs.length > 0) await sleep(flags.pause)
        const run = await measureRun(target, each, { repeat, salt: `${level}/${repeat}`, slo }, io)
        runs.push(run)
        io.stdout.write(flags.json ? `${JSON.stringify(run.result)}\n` : runTable(run.result))
      }
      const own = runs.slice(-repeats).map(({ result }) => result)
      if (!flags.json && repeats > 1)
        io.stdout.write(repeatTable(own.filter((one) => one.load === each.shape)))
    }
    await writeFiles({ runs, title: 'cllm bench serve' }, flags)
    return exitCodeOf(
      runs.map(({ result }) => ({ ok: result.summary.requests.ok, stopped: result.stopped })),
    )
  },
})

/** `cllm bench compare` */
export const compare = defineCommand({
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
    const start = async (command: string): Promise<URL> => {
      const options = { timeoutMs: flags['start-timeout'], signal: io.signal }
      const server = await startServer(command, options)
      started.push(server)
      return server.url
    }
    try {
      const targets: Target[] = []
      for (const spec of specs) {
        const url = 'url' in spec ? spec.url : await start(spec.command)
        // In some servers an idle connection occupies a thread, and every client keeps one open.
        const { name } = spec
        const target = readTarget({ name, url }, apis.get(name)!, 'new', flags, io.env)
        targets.push(await reachTarget(target, loads[0] as LoadOptions, io.signal))
      }
      return await compareTargets({ title: 'cllm bench compare', targets, loads, watch }, flags, io)
    } finally {
      await Promise.all(started.map(({ stop }) => stop()))
    }
  },
})
