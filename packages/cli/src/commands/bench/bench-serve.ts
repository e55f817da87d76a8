import { setTimeout as sleep } from 'node:timers/promises'
import { type LoadOptions, type MeasuredRun, reachTarget, repeatTable, runTable } from '@cllm/bench'
import { exitCodeOf, writeFiles } from './output.js'
import { defineCommand } from '../flags/define-command.js'
import { wrong } from '../flags/flags.js'
import { serveFlags } from './flags/load-flags.js'
import { measureRun, warmUp } from './measure-run.js'
import { readLoads } from './flags/read-load.js'
import { readTarget } from './flags/read-target.js'

/** `cllm bench serve` */
export const benchServe = defineCommand({
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
    const given = readTarget({ name: url.host, url, api, connections: 'reuse' }, flags, io.env)
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
    await writeFiles({ runs, report: flags.report, trace: flags.trace, title: 'cllm bench serve' })
    return exitCodeOf(
      runs.map(({ result }) => ({ ok: result.summary.requests.ok, stopped: result.stopped })),
    )
  },
})
