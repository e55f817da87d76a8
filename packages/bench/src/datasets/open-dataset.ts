import { CllmError } from '@cllm/core'
import type { Dataset } from '../workload/work-item.js'
import { azureTrace } from './sources/azure-trace.js'
import { mooncakeTrace } from './sources/mooncake-trace.js'
import { mtBenchDataset } from './sources/mt-bench.js'
import { shareGptDataset } from './sources/sharegpt.js'
import { syntheticDataset, type SyntheticOptions } from './sources/synthetic.js'
import { textDataset } from './sources/text-lines.js'

const formats: Readonly<Record<string, (file: string, options: SyntheticOptions) => Dataset>> = {
  text: textDataset,
  sharegpt: shareGptDataset,
  'mt-bench': mtBenchDataset,
  azure: azureTrace,
  mooncake: mooncakeTrace,
}

/** The values that `--dataset` accepts. */
export const datasetNames = ['synthetic', ...Object.keys(formats).map((name) => `${name}:FILE`)]

/**
 * The dataset that `synthetic` or `format:FILE` names.
 *
 * @throws `invalid_configuration` for another format, `invalid_dataset` for an invalid file
 */
export function openDataset(spec: string, options: SyntheticOptions): Dataset {
  if (spec === 'synthetic') return syntheticDataset(options)
  const colon = spec.indexOf(':')
  const open = colon === -1 ? undefined : formats[spec.slice(0, colon)]
  if (open !== undefined) return open(spec.slice(colon + 1), options)
  const expected = datasetNames.join(', ')
  throw new CllmError('invalid_configuration', `--dataset: expected ${expected}, got "${spec}"`)
}
