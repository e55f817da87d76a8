import {
  formatNumber,
  reachTarget,
  schemaVersion,
  textTable,
} from '../../packages/bench/dist/index.js'
import { enginePid } from './engine-pid.mjs'
import { faults, runFaults } from './run-faults.mjs'
import { exitCode } from '../../packages/cli/dist/commands/bench/output.js'
import {
  asksForHelp,
  flagsHelp,
  many,
  one,
  parseFlags,
  toggle,
  wrong,
  duration,
  integer,
} from '../../packages/cli/dist/commands/flags.js'
import { serveFlags } from '../../packages/cli/dist/commands/bench/flags/load.js'
import { readTarget } from '../../packages/cli/dist/commands/bench/flags/target.js'

const { target, api, model, 'api-key': apiKey, 'extra-body': extraBody } = serveFlags

const flagTable = {
  target,
  api,
  model,
  'api-key': apiKey,
  'extra-body': extraBody,
  pid: one('N', "The server's process id, to find and kill its engine's process", integer(1)),
  'engine-pid': one('N', "The engine's process id, if it is not a child of --pid", integer(1)),
  only: many('NAME', 'Only faults with names that start with NAME', String),
  clients: one('N', 'Concurrent requests that fill the server (default 32)', integer(1), 32),
  sockets: one('N', 'Concurrent connections (default 1,000)', integer(1, 20_000), 1000),
  words: one('N', 'Words of a long prompt (default 100)', integer(1), 100),
  tokens: one('N', 'Tokens of a long answer (default 100)', integer(4), 100),
  recovery: one(
    'TIME',
    'Time limit for the canary request after a fault (default 10s)',
    duration,
    10_000,
  ),
  restart: one(
    'TIME',
    'The same limit when the engine has to restart (default 1m)',
    duration,
    60_000,
  ),
  stop: one('TIME', 'How long the engine is paused (default 2s)', duration, 2000),
  json: toggle('One JSON line and nothing else'),
}

const usage = `Usage: node benchmarks/faults.mjs --target URL [--api NAME] [--pid N] [flags]

Injects faults into a server, one after another, and prints a score card. After each fault the
server must answer a small request, the canary, in time and with the same text as before. Do not run
this against a server in use.

${flagsHelp(flagTable)}
Faults:
${faults.map(({ name }) => `  ${name}`).join('\n')}

Exit codes: 0 no fault failed, 1 some failed or the target cannot be reached, 2 wrong flags,
130 interrupted.
`

/** `benchmarks/faults.mjs` */
export async function injectFaults(argv, io) {
  if (asksForHelp(argv)) {
    io.stdout.write(usage)
    return exitCode.ok
  }
  const flags = parseFlags(argv, flagTable)
  const { target: url, pid, only, json, recovery, restart, stop } = flags
  const { clients, sockets, words, tokens } = flags
  if (url === undefined) throw wrong('--target is missing: expected the URL of a server')
  const unknown = only.find((word) => !faults.some(({ name }) => name.startsWith(word)))
  if (unknown !== undefined) {
    throw wrong(`--only: expected ${faults.map(({ name }) => name).join(', ')}, got "${unknown}"`)
  }
  const name = flags.api.at(-1) ?? 'cllm'
  const given = readTarget({ name: url.host, url }, name, 'new', flags, io.env)
  const load = { temperature: 0, ignoreEos: true, timeoutMs: restart }
  const results = []
  const run = runFaults({
    target: await reachTarget(given, load, io.signal),
    options: {
      clients,
      connections: sockets,
      words,
      tokens,
      recoveryMs: recovery,
      restartMs: restart,
      stopMs: stop,
    },
    ...(pid === undefined && flags['engine-pid'] === undefined
      ? {}
      : { engine: enginePid(pid, flags['engine-pid']) }),
    only,
    signal: io.signal,
  })
  for await (const result of run) {
    results.push(result)
    if (!json) io.stderr.write(`${result.verdict}: ${result.fault}\n`)
  }
  const count = (verdict) => results.filter((each) => each.verdict === verdict).length
  const totals = { passed: count('pass'), failed: count('fail'), skipped: count('skip') }
  const { href } = url
  const card = {
    schema: schemaVersion,
    kind: 'faults',
    target: { url: href, api: name },
    ...totals,
  }
  io.stdout.write(
    json ? `${JSON.stringify({ ...card, faults: results })}\n` : table(results, totals),
  )
  if (io.signal.aborted) return exitCode.interrupted
  return totals.failed > 0 ? exitCode.failed : exitCode.ok
}

function table(results, { passed, failed, skipped }) {
  const rows = results.map(({ fault, verdict, expected, came, recoveryMs }) => [
    fault,
    verdict,
    recoveryMs === undefined ? '' : formatNumber(recoveryMs),
    verdict === 'fail' ? `${came} (expected: ${expected})` : came,
  ])
  const head = ['fault', 'verdict', 'canary ms', 'outcome']
  return `${textTable(head, rows)}\n${passed} passed, ${failed} failed, ${skipped} skipped\n`
}
