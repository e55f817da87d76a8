import { apis } from '../apis/api-table.js'
import { datasetNames } from '../datasets/open-dataset.js'
import { parseLengths } from '../workload/length-distribution.js'
import { many, one, toggle } from './flags.js'
import { parseSlo } from './parse-slo.js'
import { parseTenants } from './parse-tenants.js'
import { duration, integer, list, positive, share, word } from './values.js'

const text = (value: string) => value

function url(value: string): URL {
  if (URL.canParse(value) && /^https?:/.test(value)) return new URL(value)
  throw new Error('expected a URL such as http://127.0.0.1:8080')
}

/** The flags that describe a load and how it is reported, for every command that makes one. */
export const loadFlags = {
  api: many('NAME', `${[...apis.keys()].join(', ')} (default cllm)`, text),
  model: one('NAME', 'Model to ask for (default: the first that the server lists)', text),
  'api-key': one('KEY', 'Bearer token (default: $CLLM_BENCH_API_KEY)', text),
  concurrency: one(
    'N,…',
    'Closed loop: so many clients; one run each (default 1,8)',
    list(integer(1, 10_000)),
  ),
  rate: one('R,…', 'Open loop: so many requests per second; one run each', list(positive)),
  burstiness: one(
    'B',
    'Gamma shape of the gaps: 1 Poisson, below burstier (default 1)',
    positive,
    1,
  ),
  ramp: one('TIME', 'Begin slowly for so long (default 0s)', duration, 0),
  requests: one('N', 'Requests per run (default 10 per client, at least 30)', integer(1)),
  duration: one('TIME', 'Send for so long instead', duration),
  warmup: one('N', 'Requests before the first run that do not count (default 2)', integer(0), 2),
  dataset: one('SPEC', datasetNames.join(', '), text, 'synthetic'),
  'input-len': one(
    'LENGTHS',
    'Prompt tokens: 128, uniform:64-256, normal:128,32, lognormal:128,0.5',
    parseLengths,
    parseLengths('128'),
  ),
  'output-len': one(
    'LENGTHS',
    'Answer tokens, likewise (default 64)',
    parseLengths,
    parseLengths('64'),
  ),
  'shared-prefix': one(
    'SHARE',
    'Share of each prompt that its group has in common (default 0)',
    share,
    0,
  ),
  'prefix-groups': one('N', 'How many such groups (default 1)', integer(1), 1),
  'time-scale': one(
    'F',
    "Factor on a trace's times; 0.5 is twice as fast (default 1)",
    positive,
    1,
  ),
  'length-scale': one('F', "Factor on a dataset's lengths (default 1)", positive, 1),
  'max-input': one('N', 'Cut prompts to so many tokens', integer(1)),
  'max-output': one('N', 'Cut answers to so many tokens', integer(1)),
  tenants: one('SPEC', 'Senders: 4, or big=3,small=1 by weight', parseTenants),
  'cancel-rate': one(
    'SHARE',
    'Requests that the client leaves in the middle (default 0)',
    share,
    0,
  ),
  'slow-readers': one('SHARE', 'Requests that are read slowly (default 0)', share, 0),
  'slow-read': one(
    'TIME',
    'How long a slow reader rests after each chunk (default 200ms)',
    duration,
    200,
  ),
  temperature: one('T', 'Sampling temperature (default 0.7)', Number, 0.7),
  'allow-eos': toggle('Let the model end before the asked length'),
  'extra-body': one('JSON', 'More fields for every request', parseObject, {}),
  timeout: one('TIME', 'When a request has failed (default 10m)', duration, 600_000),
  connections: one('KIND', 'reuse or new: a connection per request', word('reuse', 'new')),
  pause: one('TIME', 'Rest between runs (default 500ms)', duration, 500),
  seed: one('N', 'Same seed, same requests (default: random, and told)', integer(0, 2 ** 32 - 1)),
  slo: one('SPEC', 'Goodput limits: ttft:500ms,itl:100ms,tpot:…,e2e:…', parseSlo, {}),
  json: toggle('One JSON line per run on stdout and nothing else'),
  report: one('FILE', 'Write a self-contained HTML report', text),
  trace: one('FILE', 'Write a timeline for Perfetto or chrome://tracing', text),
} as const

/** The flags of `cllm bench serve`. */
export const serveFlags = {
  target: one('URL', 'The server, without the path of its API', url),
  ...loadFlags,
  repeats: one(
    'N',
    'Runs per load, with fresh prompts, for intervals (default 1)',
    integer(1, 1000),
    1,
  ),
} as const

/** The flags of `cllm bench compare`. */
export const compareFlags = {
  target: many('NAME=WHAT', 'A URL, or cmd:COMMAND with {port} in it; twice or more', text),
  ...loadFlags,
  api: many('[NAME=]API', `For all or one target: ${[...apis.keys()].join(', ')}`, text),
  rounds: one('N', 'How often each target gets each load (default 5)', integer(1, 1000), 5),
  'start-timeout': one(
    'TIME',
    'How long a command may take to answer (default 2m)',
    duration,
    120_000,
  ),
} as const

function parseObject(value: string): Readonly<Record<string, unknown>> {
  const problem = new Error('expected a JSON object')
  let result: unknown
  try {
    result = JSON.parse(value)
  } catch {
    throw problem
  }
  if (typeof result !== 'object' || result === null || Array.isArray(result)) throw problem
  return result as Record<string, unknown>
}
