import { parseLengths } from '@cllm/bench'
import { defaultRouterName } from '@cllm/scheduler'
import { builtInMachines } from '@cllm/simulation'
import { many, one } from '../../flags/flags.js'
import { drain, images, integer, list, positive, share } from '../../flags/values.js'
import { datasetFlags, loadFlags, parseTenants } from './load-flags.js'

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
  requests: one('N', 'Number of requests (default: all of a trace, else 1,000)', integer(1)),
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
  slo: loadFlags.slo,
} as const
