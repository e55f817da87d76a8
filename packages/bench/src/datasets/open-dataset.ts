import { CllmError } from '@cllm/core'
import type { Dataset } from '../workload/work-item.js'
import { azureTrace } from './azure-trace.js'
import { mooncakeTrace } from './mooncake-trace.js'
import { mtBenchDataset } from './mt-bench.js'
import { shareGptDataset } from './sharegpt.js'
import { syntheticDataset, type SyntheticOptions } from './synthetic.js'
import { textDataset } from './text-lines.js'

const formats: Readonly<Record<string, (file: string, options: SyntheticOptions) => Dataset>> = {
  text: textDataset,
  sharegpt: shareGptDataset,
  'mt-bench': mtBenchDataset,
  azure: azureTrace,
  mooncake: mooncakeTrace,
}

/** What `--dataset` takes. */
export const datasetNames = ['synthetic', ...Object.keys(formats).map((name) => `${name}:FILE`)]

/**
 * The dataset that `synthetic` or `format:FILE` names.
 *
 * @throws `invalid_configuration` for another format, `invalid_dataset` for a file that is not of it
 */
export function openDataset(spec: string, options: SyntheticOptions): Dataset {
  if (spec === 'synthetic') return syntheticDataset(options)
  const colon = spec.indexOf(':')
  const open = colon === -1 ? undefined : formats[spec.slice(0, colon)]
  if (open !== undefined) return open(spec.slice(colon + 1), options)
  const expected = datasetNames.join(', ')
  throw new CllmError('invalid_configuration', `--dataset: expected ${expected}, got "${spec}"`)
}
