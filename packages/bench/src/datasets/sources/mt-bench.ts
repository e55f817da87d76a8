import { z } from 'zod'
import { randomSource } from '../../statistics/random-source.js'
import { lengthDrawer } from '../../workload/length-distribution.js'
import type { Dataset, WorkItem } from '../../workload/work-item.js'
import { guessTokens } from '../guess-tokens.js'
import { listDataset } from '../list-dataset.js'
import { readJsonLines } from '../read-json-lines.js'
import type { OutputOptions } from './text-lines.js'

const question = z.object({ turns: z.array(z.string()).min(1) })

/**
 * MT-bench's questions (lm-sys/FastChat: `question_id, category, turns`): each further turn follows
 * the answer to the one before.
 */
export function mtBenchDataset(file: string, { outputLengths, seed }: OutputOptions): Dataset {
  const draw = lengthDrawer(outputLengths, randomSource(seed, 'output'))
  const items = readJsonLines(file, question).map(({ value: { turns } }) => {
    const items = turns.map((prompt): WorkItem => {
      return { prompt, inputTokens: guessTokens(prompt), outputTokens: draw() }
    })
    return items.reduceRight((next, item) => ({ ...item, next }))
  })
  return listDataset('mt-bench', items)
}
