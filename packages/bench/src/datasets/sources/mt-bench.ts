import { z } from 'zod'
import { randomSource } from '../../statistics/random-source.js'
import { lengthDrawer } from '../../workload/length-distribution.js'
import type { Dataset, WorkItem } from '../../workload/work-item.js'
import { guessTokens } from '../guess-tokens.js'
import { listDataset } from '../list-dataset.js'
import type { OutputOptions } from './text-lines.js'
import { type JsonLine, parseJsonLines } from '../parse-json.js'
import { readText } from '../read-text.js'

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

/**
 * The objects of a file with one JSON object per line; empty lines are skipped.
 *
 * @throws `invalid_dataset` with the line of the first object that does not match the schema
 */
const readJsonLines = <T>(file: string, schema: z.ZodType<T>): JsonLine<T>[] =>
  parseJsonLines(readText(file), file, schema)
