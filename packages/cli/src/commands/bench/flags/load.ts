import { randomInt } from 'node:crypto'
import {
  apis,
  datasetNames,
  parseLengths,
  type Slo,
  type TenantShare,
  type Dataset,
  fitDataset,
  type LoadOptions,
  type LoadShape,
  openDataset,
} from '@cllm/bench'
import { defined } from '@cllm/core'
import { format, isRecord, parseJson } from '../../../config/options/value-format.js'
import {
  many,
  one,
  toggle,
  duration,
  integer,
  list,
  number,
  positive,
  resultFile,
  share,
  word,
  wrong,
  type Values,
} from '../../flags.js'

function url(value: string): URL {
  if (URL.canParse(value) && /^https?:/.test(value)) return new URL(value)
  throw new Error('expected a URL such as http://127.0.0.1:8080')
}

const parseObject = format<Readonly<Record<string, unknown>>>('a JSON object', isRecord, {
  parse: parseJson,
}).read

/** The flags for what is requested of a dataset, and by whom; simulations have them, too. */
export const datasetFlags = {
  'shared-prefix': one('SHARE', 'Share of each prompt that is common to its group', share, '0'),
  'prefix-groups': one('N', 'Number of groups with a common prefix', integer(1), '1'),
  'time-scale': one('F', "Factor on a trace's times; 0.5 is twice as fast", positive, '1'),
  'length-scale': one('F', "Factor on a dataset's lengths", positive, '1'),
  'max-input': one('N', 'Most tokens of a prompt; longer ones are cut', integer(1)),
  'max-output': one('N', 'Most tokens of an answer; longer ones are cut', integer(1)),
  tenants: one('SPEC', 'Tenants: a number, or weights such as big=3,small=1', parseTenants),
} as const

/** The flags that say how a server is asked. */
export const targetFlags = {
  api: many('NAME', `${[...apis.keys()].join(', ')} (default cllm)`),
  model: one('NAME', 'Model to request (default: the first that the server lists)'),
  'api-key': one('KEY', 'Bearer token (default: $CLLM_BENCH_API_KEY)'),
  connections: one('KIND', 'reuse, or new for a connection per request', word('reuse', 'new')),
} as const

/** The flags that describe a load and its report, for every command that generates load. */
export const loadFlags = {
  concurrency: one(
    'N,…',
    'Closed loop: number of clients; one run per value (default 1,8)',
    list(integer(1, 10_000)),
  ),
  rate: one('R,…', 'Open loop: requests per second; one run per value', list(positive)),
  burstiness: one('B', 'Gamma shape of the gaps: 1 is Poisson, less is burstier', positive, '1'),
  ramp: one('TIME', 'Time to ramp up to the full load', duration, '0s'),
  requests: one(
    'N',
    'Requests or programs per run (default 10 per client, at least 30)',
    integer(1),
  ),
  duration: one('TIME', 'Time to send requests for, instead of --requests', duration),
  warmup: one('N', 'Unmeasured requests before the first run', integer(0), '2'),
  dataset: one('SPEC', datasetNames.join(' ').replaceAll('FILE', '…')),
  'input-len': one(
    'LENGTHS',
    'Prompts: 128 (default), uniform:64-256, normal:128,32, lognormal:128,0.5',
    parseLengths,
    '128',
  ),
  'output-len': one('LENGTHS', 'Answer tokens, in the same form', parseLengths, '64'),
  ...datasetFlags,
  'cancel-rate': one('SHARE', 'Share of requests that the client cancels midway', share, '0'),
  'slow-readers': one('SHARE', 'Share of requests that are read slowly', share, '0'),
  'slow-read': one('TIME', 'How long a slow reader pauses after each chunk', duration, '200ms'),
  temperature: one('T', 'Sampling temperature', number, '0.7'),
  'allow-eos': toggle('Let the model stop before the requested length'),
  'own-calls': toggle("Carry on the model's own calls, not the dataset's; see --allow-eos"),
  'extra-body': one('JSON', 'Further fields for every request body', parseObject, {}),
  timeout: one('TIME', 'Time after which a request fails', duration, '10m'),
  pause: one('TIME', 'Pause between runs', duration, '500ms'),
  seed: one('N', 'Same seed, same requests (default: random, printed)', integer(0, 2 ** 32 - 1)),
  slo: one('SPEC', 'Goodput limits: ttft:500ms,itl:100ms,tpot:…,e2e:…', parseSlo, {}),
  json: toggle('One JSON line per run on stdout and nothing else'),
  csv: one('FILE', 'Write a CSV line for each run', resultFile),
  'requests-csv': one('FILE', 'Write a CSV line for each request', resultFile),
  report: one('FILE', 'Write a self-contained HTML report', resultFile),
  trace: one('FILE', 'Write a timeline for Perfetto or chrome://tracing', resultFile),
} as const

/** The flags of `cllm bench serve`. */
export const serveFlags = {
  target: one('URL', 'The server, without the path of its API', url),
  ...targetFlags,
  ...loadFlags,
  repeats: one(
    'N',
    'Runs per load with fresh prompts, for confidence intervals',
    integer(1, 1000),
    '1',
  ),
} as const

/** The flags of `cllm bench compare`. */
export const compareFlags = {
  target: many('NAME=WHAT', 'A URL, or cmd:COMMAND with {port} in it; at least two'),
  ...targetFlags,
  api: many('[NAME=]API', 'For all targets, or NAME=API for one; the APIs of `cllm bench serve`'),
  ...loadFlags,
  rounds: one('N', 'Runs of each load per target', integer(1, 1000), '5'),
  'start-timeout': one('TIME', 'Time limit for a started command to answer', duration, '2m'),
} as const

const figure = word('ttft', 'itl', 'tpot', 'e2e')

/** Reads `ttft:500ms,itl:100ms`. */
function parseSlo(text: string): Slo {
  const limits = text.split(',').map((part) => {
    const [name = '', limit] = part.split(':')
    if (limit === undefined) throw new Error('expected limits such as ttft:500ms,itl:100ms')
    return [figure(name), duration(limit)]
  })
  return Object.fromEntries(limits) as Slo
}

/** Reads `3` (tenants of equal weight) or `big=3,small=1`. */
export function parseTenants(text: string): TenantShare[] {
  if (!text.includes('=')) {
    const count = integer(1, 1000)(text)
    return Array.from({ length: count }, (_, index) => ({ name: `tenant-${index + 1}`, weight: 1 }))
  }
  return text.split(',').map((part) => {
    const [name = '', weight = ''] = part.split('=')
    if (name === '') throw new Error('expected a number of tenants or name=weight pairs')
    return { name, weight: positive(weight) }
  })
}

/** The values of the flags that describe a load. */
export type LoadFlagValues = Values<typeof loadFlags>

type DatasetFlags = Values<typeof datasetFlags> & Pick<LoadFlagValues, 'input-len' | 'output-len'>

/**
 * The loads that the flags describe, one per level of concurrency or rate.
 *
 * @throws `invalid_configuration` for contradictory flags, `invalid_dataset` for an invalid file
 */
export function readLoads(flags: LoadFlagValues): LoadOptions[] {
  const { concurrency, rate, requests, duration, ramp, burstiness } = flags
  if (concurrency !== undefined && rate !== undefined) {
    throw wrong('--concurrency and --rate: expected one of them, got both')
  }
  const seed = flags.seed ?? randomInt(2 ** 31)
  const dataset = readDataset(flags.dataset ?? 'synthetic', flags, seed)
  const shapes = (): LoadShape[] => {
    if (rate !== undefined) {
      return rate.map((each) => ({ kind: 'open', rate: each, burstiness, rampMs: ramp }))
    }
    if (concurrency === undefined && dataset.timed) return [{ kind: 'trace' }]
    const levels = concurrency ?? [1, 8]
    return levels.map((each) => ({ kind: 'closed', concurrency: each, rampMs: ramp }))
  }
  return shapes().map((shape) => {
    const count =
      requests ?? (duration === undefined ? defaultRequests(shape, dataset.size) : undefined)
    return {
      shape,
      dataset,
      ...defined({ requests: count, durationMs: duration, tenants: flags.tenants }),
      seed,
      cancelRate: flags['cancel-rate'],
      slowReaders: flags['slow-readers'],
      slowReadMs: flags['slow-read'],
      temperature: flags.temperature,
      ignoreEos: !flags['allow-eos'],
      ownCalls: flags['own-calls'],
      timeoutMs: flags.timeout,
    }
  })
}

function defaultRequests(shape: LoadShape, size: number | undefined): number | undefined {
  if (shape.kind === 'trace') return size
  return Math.max(30, shape.kind === 'closed' ? 10 * shape.concurrency : 10 * shape.rate)
}

/** A dataset with the lengths that the flags say; they scale and cut the items of a file. */
export const readDataset = (spec: string, flags: DatasetFlags, seed: number): Dataset =>
  fitted(
    openDataset(spec, {
      inputLengths: flags['input-len'],
      outputLengths: flags['output-len'],
      sharedPrefix: flags['shared-prefix'],
      prefixGroups: flags['prefix-groups'],
      seed,
    }),
    flags,
  )

/** The same dataset, scaled and cut. */
export const fitted = (dataset: Dataset, flags: DatasetFlags): Dataset =>
  fitDataset(dataset, {
    timeScale: flags['time-scale'],
    lengthScale: flags['length-scale'],
    ...defined({ maxInput: flags['max-input'], maxOutput: flags['max-output'] }),
  })
