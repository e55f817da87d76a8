import { readFileSync } from 'node:fs'
import { datasetError, parseJson, parseJsonLines } from './parse-json.js'
import { z } from 'zod'
import { CllmError, ownEntry } from '@cllm/core'
import { type Dataset, guessTokens, type WorkItem } from '../workload/work-item.js'
import { agentsDataset, syntheticDataset, type SyntheticOptions } from './drawn-datasets.js'
import { azureItems, mooncakeItems } from './trace-items.js'
import { lengthDrawer, randomSource } from '../statistics/random.js'

/**
 * The text of a file.
 *
 * @throws `invalid_dataset` when it cannot be read or has nothing in it
 */
export function readText(file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw datasetError(file, undefined, code === 'ENOENT' ? 'there is no such file' : message)
  }
  if (text.trim() === '') throw datasetError(file, undefined, 'is empty')
  return text
}

/**
 * Reads a JSON file.
 *
 * @param expected - what it could have been beside JSON, for the message
 * @throws `invalid_dataset` naming the file and its problem
 */
export const readJson = <T>(file: string, schema: z.ZodType<T>, expected?: string): T =>
  parseJson(readText(file), file, schema, expected)

const question = z.object({ turns: z.array(z.string()).min(1) })

/**
 * MT-bench's questions (lm-sys/FastChat: `question_id, category, turns`): each further turn follows
 * the answer to the one before.
 */
export function mtBenchDataset(file: string, { outputLengths, seed }: OutputOptions): Dataset {
  const draw = lengthDrawer(outputLengths, randomSource(seed, 'output'))
  const items = parseJsonLines(readText(file), file, question).map(({ value: { turns } }) => {
    const items = turns.map((prompt) => textItem(prompt, draw()))
    return items.reduceRight((next, item) => ({ ...item, next }))
  })
  return listDataset('mt-bench', items)
}

const conversations = z.array(
  z.object({ conversations: z.array(z.object({ from: z.string(), value: z.string() })) }),
)

/**
 * Conversations as ShareGPT's JSON has them: an array of `{conversations: [{from, value}, …]}`. The
 * first message is the prompt, and the length of its answer is the requested length; conversations
 * without an answer are left out, as in vLLM's benchmark.
 */
export function shareGptDataset(file: string): Dataset {
  const items = readJson(file, conversations).flatMap(({ conversations: [first, second] }) => {
    if (first === undefined || second === undefined || first.value === '') return []
    return [textItem(first.value, guessTokens(second.value))]
  })
  if (items.length === 0) throw datasetError(file, undefined, 'has no conversation with an answer')
  return listDataset('sharegpt', items)
}

/** Options for files without answers. */
export type OutputOptions = Pick<SyntheticOptions, 'outputLengths' | 'seed'>

/** One prompt per line of a text file. */
export function textDataset(file: string, { outputLengths, seed }: OutputOptions): Dataset {
  const draw = lengthDrawer(outputLengths, randomSource(seed, 'output'))
  const lines = readText(file).split(/\r?\n/)
  const prompts = lines.filter((line) => line.trim() !== '')
  const items = prompts.map((prompt) => textItem(prompt, draw()))
  return listDataset('text', items)
}

const textItem = (prompt: string, outputTokens: number): WorkItem => {
  return { prompt, inputTokens: guessTokens(prompt), outputTokens }
}

/** A dataset of the items of a list, from the beginning again after the last. */
export function listDataset(name: string, items: readonly WorkItem[]): Dataset {
  return {
    name,
    size: items.length,
    timed: items.every(({ atMs }) => atMs !== undefined),
    item: (index) => items[index % items.length] as WorkItem,
  }
}

const formats: Readonly<Record<string, (file: string, options: SyntheticOptions) => Dataset>> = {
  text: textDataset,
  sharegpt: shareGptDataset,
  'mt-bench': mtBenchDataset,
  azure: (file) => listDataset('azure', azureItems(readText(file), file)),
  mooncake: (file) => listDataset('mooncake', mooncakeItems(readText(file), file)),
}

/** The values that `--dataset` accepts. */
export const datasetNames = [
  'synthetic',
  'agents[:SHARE]',
  ...Object.keys(formats).map((name) => `${name}:FILE`),
]

/**
 * The dataset that `synthetic`, `agents`, `agents:SHARE` or `format:FILE` names.
 *
 * @throws `invalid_configuration` for another format, `invalid_dataset` for an invalid file
 */
export function openDataset(spec: string, options: SyntheticOptions): Dataset {
  if (spec === 'synthetic') return syntheticDataset(options)
  const [, hints = '0'] = /^agents(?::(0|1|0?\.\d+))?$/.exec(spec) ?? [undefined, '']
  if (hints !== '') return agentsDataset(options.seed, Number(hints))
  const colon = spec.indexOf(':')
  const open = colon === -1 ? undefined : ownEntry(formats, spec.slice(0, colon))
  if (open !== undefined) return open(spec.slice(colon + 1), options)
  const expected = datasetNames.join(', ')
  throw new CllmError('invalid_configuration', `--dataset: expected ${expected}, got "${spec}"`)
}
