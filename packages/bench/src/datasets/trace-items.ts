import { parse } from 'csv-parse/sync'
import type { WorkItem } from '../workload/work-item.js'
import { datasetError, parseJsonLines } from './parse-json.js'
import { z } from 'zod'
import type { PromptPart } from '@cllm/simulation'

const columns = ['TIMESTAMP', 'ContextTokens', 'GeneratedTokens'] as const

interface Row {
  readonly record: Readonly<Record<string, string>>
  readonly info: { readonly lines: number }
}

/**
 * The requests in the text of a trace in the CSV format of Azure's LLM inference traces (Azure/AzurePublicDataset):
 * `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`. Prompts share nothing.
 *
 * @param file - its name, for messages
 * @throws `invalid_dataset`
 */
export function azureItems(text: string, file: string): WorkItem[] {
  const rows = readRows(text, file)
  const begin = timeOf(rows[0] as Row, file)
  let before = begin
  return rows.map((row, index) => {
    const at = timeOf(row, file)
    before = inOrder(before, at, file, row.info.lines, 'TIMESTAMP')
    const inputTokens = countOf(row, 'ContextTokens', file)
    const outputTokens = countOf(row, 'GeneratedTokens', file)
    const prompt = [{ key: `item ${index}`, tokens: inputTokens }]
    return { prompt, inputTokens, outputTokens, atMs: at - begin }
  })
}

function readRows(text: string, file: string): readonly Row[] {
  let rows: readonly Row[]
  try {
    const form = { columns: true, info: true, bom: true, trim: true, skipEmptyLines: true } as const
    rows = parse(text, form) as unknown as Row[]
  } catch (error) {
    const { lines, message } = error as Error & { lines?: number }
    if (lines === undefined) throw error
    throw datasetError(file, lines, message)
  }
  const [first] = rows
  if (first === undefined) throw datasetError(file, undefined, 'has no requests')
  const missing = columns.find((name) => !(name in first.record))
  if (missing === undefined) return rows
  throw datasetError(file, 1, `expected the columns ${columns.join(', ')}; ${missing} is missing`)
}

/** Microseconds and below, which Date does not know, are added: gaps of a busy trace are that small. */
function timeOf({ record, info }: Row, file: string): number {
  const text = record.TIMESTAMP as string
  const match = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?$/.exec(text)
  const seconds = match === null ? NaN : Date.parse(`${match[1]}T${match[2]}${match[4] ?? 'Z'}`)
  if (Number.isNaN(seconds)) {
    const expected = 'expected a time like 2023-11-16 18:15:46.6805900'
    throw datasetError(file, info.lines, `TIMESTAMP: ${expected}, got "${text}"`)
  }
  return seconds + Number(match?.[3] ?? 0) * 1000
}

function countOf({ record, info }: Row, name: (typeof columns)[number], file: string): number {
  const text = record[name] ?? ''
  if (/^\d+$/.test(text)) return Math.max(1, Number(text))
  throw datasetError(file, info.lines, `${name}: expected a whole number, got "${text}"`)
}

/** @returns the time, which is not before that of the request before */
function inOrder(before: number, at: number, file: string, line: number, name: string): number {
  if (at >= before) return at
  const problem = `earlier than the one before, by ${before - at} ms: expected the order of time`
  throw datasetError(file, line, `${name}: ${problem}`)
}

/** Tokens per hash id. */
const blockTokens = 512

const count = z.int().nonnegative()
const request = z.object({
  timestamp: z.number().nonnegative(),
  input_length: count,
  output_length: count,
  hash_ids: z.array(z.int()).default([]),
})

/**
 * The requests in the text of a trace in Mooncake's JSONL format (kvcache-ai/Mooncake): `timestamp` (ms), `input_length`,
 * `output_length`, `hash_ids`: one per 512-token block of the prompt. Equal ids become equal text, so prefixes are shared
 * as they were.
 *
 * @param file - its name, for messages
 * @throws `invalid_dataset`
 */
export function mooncakeItems(text: string, file: string): WorkItem[] {
  const requests = parseJsonLines(text, file, request)
  const begin = requests[0]?.value.timestamp ?? 0
  let before = begin
  return requests.map(({ line, value: entry }, index) => {
    before = inOrder(before, entry.timestamp, file, line, 'timestamp')
    const inputTokens = Math.max(1, entry.input_length)
    return {
      prompt: blocks(entry.hash_ids, inputTokens, index),
      inputTokens,
      outputTokens: Math.max(1, entry.output_length),
      atMs: entry.timestamp - begin,
    }
  })
}

function blocks(ids: readonly number[], inputTokens: number, index: number): PromptPart[] {
  const segments: PromptPart[] = []
  let left = inputTokens
  for (const id of ids) {
    if (left <= 0) break
    segments.push({ key: `block ${id}`, tokens: Math.min(blockTokens, left) })
    left -= blockTokens
  }
  if (left > 0) segments.push({ key: `item ${index}`, tokens: left })
  return segments
}
