import type { Dataset } from '../../workload/work-item.js'
import { listDataset } from '../list-dataset.js'
import { readText } from '../read-text.js'
import { azureItems } from './azure-items.js'

/**
 * A trace in the CSV format of Azure's LLM inference traces (Azure/AzurePublicDataset): `TIMESTAMP`,
 * `ContextTokens`, `GeneratedTokens`. Prompts share nothing.
 */
export const azureTrace = (file: string): Dataset =>
  listDataset('azure', azureItems(readText(file), file))
