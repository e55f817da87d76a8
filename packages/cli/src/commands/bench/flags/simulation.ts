import {
  parseLengths,
  type Dataset,
  draftWarnings,
  type LoadShape,
  type PolicyFactory,
  readCosts,
  readRecording,
  readText,
  recordedLoad,
  type SimulationSetup,
  type Slo,
  withLimits,
  type WorkItem,
} from '@cllm/bench'
import { defaultRouterName } from '@cllm/scheduler'
import { builtInMachines, recordedMachine, type ServiceParts } from '@cllm/simulation'
import { defined } from '@cllm/core'
import {
  many,
  one,
  drain,
  images,
  integer,
  list,
  positive,
  share,
  wrong,
  type Values,
} from '../../flags.js'
import { datasetFlags, loadFlags, parseTenants, fitted, readDataset } from './load.js'
import { SimulatedModels } from '../simulated-models.js'

const machineNames = [...builtInMachines.keys()]

/** The flags that describe the simulated load and machine. */
export const simulationFlags = {
  trace: one('FILE', 'A trace, Azure CSV or Mooncake JSONL, with its own arrival times'),
  replay: one('FILE', "A server's recording, from GET /admin/recorder or a crash file"),
  dataset: one('SPEC', 'Without --trace: synthetic (default), agents or any from cllm bench serve'),
  rate: one('R', 'Open loop: requests per second', list(positive)),
  burstiness: loadFlags.burstiness,
  concurrency: one(
    'N',
    'Closed loop: number of clients (default: a trace at its times, else 32)',
    list(integer(1, 10_000)),
  ),
  ramp: loadFlags.ramp,
  // Limited, as all requests are kept in memory.
  requests: one('N', 'Number of requests (default: all of a trace, else 1,000)', integer(1, 1e6)),
  'input-len': one('LENGTHS', 'Prompt tokens', parseLengths, '512'),
  'output-len': one('LENGTHS', 'Answer tokens', parseLengths, '128'),
  ...datasetFlags,
  plugin: many('FILE', 'A plugin with policies, by path or package name'),
  slots: one('N', 'Slots: sequences in memory per machine (default 16)', integer(1, 4096)),
  'ctx-size': one('N', 'Tokens per slot (default: enough for the longest request)', integer(1)),
  'kv-tokens': one('N', 'Tokens of all slots together (default: a context each)', integer(1)),
  'batch-size': one('N', 'Tokens per step (default 2048)', integer(1)),
  cost: one('NAME|FILE', `Costs: ${machineNames.join(', ')}, or a file from cllm bench calibrate`),
  machines: one(
    'N',
    'Machines that share the load (default: engines of --replay, else 1)',
    integer(1, 4096),
  ),
  router: one(
    'NAME',
    "Chooses each request's machine, of docs/cluster.md",
    String,
    defaultRouterName,
  ),
  fronts: one('N', 'Processes that place requests, each with its own router', integer(1, 256), '1'),
  'view-age': one('MS', 'Age of what fronts see of the machines', integer(0), '0'),
  deaths: one('SHARE', 'Share of the machines that die each minute', share, '0'),
  spread: one('FACTOR', 'The slowest machine takes this many times as long', positive, '1'),
  drain: one('N@S,…', 'Machines that take nothing new after this many seconds', list(drain), []),
  models: one('SPEC', 'Models: a number, or weights such as big=3,small=1', parseTenants),
  'max-loaded-models': one('N', 'Models in memory at a time', integer(1), '2'),
  'model-scheduler': one('NAME', 'Which ones: lru, turns, or of a plugin', String, 'lru'),
  'load-ms': one('MS,…', 'What the load of each model takes', list(positive), [2000]),
  speculative: one(
    'SHARE',
    'Speculates; drafts are right with this probability (default: no drafts)',
    share,
  ),
  draft: one(
    'SHARE',
    'Guesses of a model, whose passes take this share of the time (default 0)',
    share,
  ),
  images: one(
    'SPEC',
    'Share of requests with an image, its tokens, ms to encode it: 0.5,300,150',
    images,
  ),
  seed: one('N', 'Same seed, same result', integer(0, 2 ** 32 - 1), '1'),
  seeds: one(
    'N',
    'Seeds to run, from --seed on; tables have 95 % intervals',
    integer(1, 1000),
    '1',
  ),
  slo: loadFlags.slo,
} as const

const defaultCosts = [...builtInMachines.keys()][0] as string

type Flags = Values<typeof simulationFlags>

/**
 * The setup that the flags describe.
 *
 * @throws `invalid_configuration` for contradictory flags, `invalid_dataset` for an invalid file
 */
export function readSimulation(flags: Flags, factory: PolicyFactory): SimulationSetup {
  const { seed, router, slo, images, tenants, models, replay, trace } = flags
  if ([replay, trace, flags.dataset].filter((source) => source !== undefined).length > 1) {
    throw wrong('--replay, --trace and --dataset: expected one of them, got more')
  }
  const replayed = replay === undefined ? undefined : readRecording(replay)
  const { dataset: spec = trace === undefined ? 'synthetic' : traceSpec(trace) } = flags
  const dataset =
    replayed === undefined
      ? readDataset(spec, flags, seed)
      : fitted(recordedLoad(replayed, replay!), flags)
  const requests = flags.requests ?? (dataset.timed ? dataset.size : undefined) ?? 1000
  const shape = readShape(flags, dataset)
  const load = { shape, dataset, seed, requests, ...defined({ tenants, models }) }
  const limits = replayed?.limits
  const machines = flags.machines ?? replayed?.engines ?? 1
  const contextSize =
    flags['ctx-size'] ?? limits?.contextSize ?? longest(dataset, requests, images?.tokens)
  const { 'kv-tokens': kvTokens = limits?.kvTokens, draft: draftShare } = flags
  const { speculative: acceptance } = flags
  if (draftShare !== undefined && acceptance === undefined) {
    throw wrong('--draft: expected --speculative SHARE with it, how often drafts are right')
  }
  if (kvTokens !== undefined && kvTokens < contextSize) {
    throw wrong(`--kv-tokens: expected at least a whole slot, ${contextSize}, got ${kvTokens}`)
  }
  const isCostNamed = flags.cost !== undefined || replayed === undefined
  return {
    load,
    machine: isCostNamed
      ? readCosts(flags.cost ?? defaultCosts)
      : recordedMachine(replayed, replay!),
    slots: flags.slots ?? limits?.slots ?? 16,
    contextSize,
    batchSize: flags['batch-size'] ?? limits?.batchSize ?? 2048,
    ...defined({ acceptance, draftShare, kvTokens, images }),
    ...(acceptance === undefined && replayed && { warnings: draftWarnings(replayed) }),
    machines,
    ...readFleet(flags, machines, factory),
    ...readModels(flags, factory),
    router,
    slo,
  }
}

/** The router, checked before anything is simulated, and what happens to the machines. */
function readFleet(flags: Flags, machines: number, factory: PolicyFactory) {
  const { router, fronts, 'view-age': viewAgeMs, deaths, spread, drain: drains } = flags
  const { name, options } = readNamed('--router', router)
  const createRouter = () => factory.routers.create(name, options)
  createRouter()
  const wrongDrain = drains.find(({ machine }) => machine >= machines)
  if (wrongDrain !== undefined) {
    throw wrong(`--drain: expected machines from 0 to ${machines - 1}, got ${wrongDrain.machine}`)
  }
  const isPlain =
    fronts === 1 && viewAgeMs === 0 && deaths === 0 && spread === 1 && drains.length === 0
  const fleet = { fronts, viewAgeMs, deaths, spread, drains }
  return { createRouter, ...(isPlain ? {} : { fleet }) }
}

/** The models, if there are several. */
function readModels(flags: Flags, { modelSchedulers }: PolicyFactory) {
  const { models, 'max-loaded-models': maxLoaded, 'load-ms': times } = flags
  if (models === undefined) return {}
  const { name, options } = readNamed('--model-scheduler', flags['model-scheduler'])
  const policy = () => modelSchedulers.create(name, options)
  policy()
  const names = models.map((one) => one.name)
  const loadMs = (index: number): number => times[index % times.length]!
  return {
    models: { scheduler: flags['model-scheduler'], maxLoaded },
    serve(parts: ServiceParts) {
      const scheduler = { name, policy: policy() }
      return new SimulatedModels(parts, { names, loadMs, maxLoaded, scheduler })
    },
  }
}

/** A name, and options as JSON after a colon. */
function readNamed(flag: string, text: string) {
  const at = text.indexOf(':{')
  if (at === -1) return { name: text, options: {} }
  try {
    const options = JSON.parse(text.slice(at + 1)) as Readonly<Record<string, unknown>>
    return { name: text.slice(0, at), options }
  } catch (error) {
    throw wrong(`${flag}: expected NAME or NAME:{JSON}, got "${text}": ${String(error)}`)
  }
}

/**
 * A policy as `--policy` names it: `batching+order`, and options as JSON after a colon. A policy with latency limits
 * gets those of `--slo`, unless its options set others.
 */
function readPolicy(text: string, factory: PolicyFactory, slo: Slo) {
  const { name: policy, options: given } = readNamed('--policy', text)
  const policyOptions = withLimits(policy, given, slo, factory)
  const createPolicy = () => factory.createPolicy(policy, policyOptions)
  // Reports a wrong name or option before the simulation starts.
  createPolicy()
  return { policy, policyOptions, createPolicy }
}

/** The policies that `--policy` names, in its order, each with the text that named it. */
export const readPolicies = (texts: readonly string[], factory: PolicyFactory, slo: Slo) =>
  texts.map((name) => ({ name, ...readPolicy(name, factory, slo) }))

/** The first character tells the formats apart: JSON objects, or CSV column names. */
function traceSpec(file: string): string {
  if (/^(azure|mooncake):/.test(file)) return file
  return `${readText(file).trimStart().startsWith('{') ? 'mooncake' : 'azure'}:${file}`
}

function readShape({ rate, concurrency, burstiness, ramp }: Flags, dataset: Dataset): LoadShape {
  if (rate !== undefined && concurrency !== undefined) {
    throw wrong('--concurrency and --rate: expected one of them, got both')
  }
  const [level, ...more] = rate ?? concurrency ?? []
  if (more.length > 0) throw wrong('--concurrency and --rate: expected one value in a simulation')
  if (level === undefined && dataset.timed) return { kind: 'trace' }
  if (rate !== undefined) return { kind: 'open', rate: level ?? 1, burstiness, rampMs: ramp }
  return { kind: 'closed', concurrency: level ?? 32, rampMs: ramp }
}

/** Tokens of the longest request, prompt and answer, rounded up to a multiple of 1,024. */
function longest(dataset: Dataset, requests: number, more = 0): number {
  const { size = Infinity } = dataset
  let most = 0
  for (let index = 0; index < Math.min(size, requests); index++) {
    let all = 0
    let turn: WorkItem | undefined = dataset.item(index)
    for (; turn !== undefined; turn = turn.next) all += turn.inputTokens + turn.outputTokens
    most = Math.max(most, all)
  }
  return Math.ceil((most + more) / 1024) * 1024
}
