import type { Dataset } from '../../workload/work-item.js'
import { listDataset } from '../list-dataset.js'
import { readText } from '../read-text.js'
import { mooncakeItems } from './mooncake-items.js'

/**
 * A trace in Mooncake's JSONL format (kvcache-ai/Mooncake): `timestamp` (ms), `input_length`,
 * `output_length`, `hash_ids`: one per 512-token block of the prompt. Equal ids become equal text, so
 * prefixes are shared as they were.
 */
export const mooncakeTrace = (file: string): Dataset =>
  listDataset('mooncake', mooncakeItems(readText(file), file))
