import { z } from 'zod'
import { randomSource } from '../statistics/random-source.js'
import { lengthDrawer } from '../workload/length-distribution.js'
import type { Dataset } from '../workload/work-item.js'
import { guessTokens } from './guess-tokens.js'
import { listDataset } from './list-dataset.js'
import { readJsonLines } from './read-json-lines.js'
import type { OutputOptions } from './text-lines.js'

const question = z.object({ turns: z.array(z.string()).min(1) })

/** The first turns of MT-bench's questions (lm-sys/FastChat: `question_id, category, turns`). */
export function mtBenchDataset(file: string, { outputLengths, seed }: OutputOptions): Dataset {
  const draw = lengthDrawer(outputLengths, randomSource(seed, 'output'))
  const items = readJsonLines(file, question).map(({ value }) => {
    const prompt = value.turns[0] as string
    return { prompt, inputTokens: guessTokens(prompt), outputTokens: draw() }
  })
  return listDataset('mt-bench', items)
}
