import { lengthDrawer, type LengthDistribution } from '../../workload/length-distribution.js'
import { randomSource } from '../../statistics/random-source.js'
import type { Dataset } from '../../workload/work-item.js'
import { guessTokens } from '../guess-tokens.js'
import { listDataset } from '../list-dataset.js'
import { readText } from '../read-text.js'

/** Options for files without answers. */
export interface OutputOptions {
  /** Requested number of answer tokens. */
  readonly outputLengths: LengthDistribution
  readonly seed: number
}

/** One prompt per line of a text file. */
export function textDataset(file: string, { outputLengths, seed }: OutputOptions): Dataset {
  const draw = lengthDrawer(outputLengths, randomSource(seed, 'output'))
  const lines = readText(file)
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '')
  const items = lines.map((prompt) => ({
    prompt,
    inputTokens: guessTokens(prompt),
    outputTokens: draw(),
  }))
  return listDataset('text', items)
}
