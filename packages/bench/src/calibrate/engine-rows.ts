import { mean, sampleStandardDeviation } from 'simple-statistics'
import type { ModelInfo } from '@cllm/core'
import { csvOf, type CsvRow } from '../report/csv.js'
import type { ModelSettings } from './model-host.js'

/** Times of one load: seconds per repetition. */
export interface EngineTimes {
  readonly promptTokens: number
  readonly outputTokens: number
  readonly parallel: number
  /** From the first request to the last one's first token. */
  readonly prefill: readonly number[]
  /** From there to the last token: as many passes as output tokens. */
  readonly decode: readonly number[]
}

/** What rows tell beside their times. */
export interface RowContext extends Pick<ModelSettings, 'batchSize' | 'threads'> {
  readonly model: ModelInfo
  readonly contextSize: number
  readonly backend: string
}

/** Rows with llama-bench's fields: `pp` for the prompts, `tg` for the answers. */
export function llamaBenchRows(all: readonly EngineTimes[], context: RowContext) {
  const { model, batchSize, threads, backend } = context
  return all.flatMap(({ promptTokens, outputTokens, parallel, prefill, decode }) => {
    const row = (prompt: number, output: number, depth: number, seconds: readonly number[]) => {
      const speeds = seconds.map((time) => ((prompt + output) * parallel) / time)
      const nanoseconds = seconds.map((time) => Math.round(time * 1e9))
      return {
        backends: backend,
        model_filename: model.path ?? model.id,
        model_type: `${model.architecture} ${model.quantization}`,
        model_size: model.sizeBytes,
        model_n_params: model.parameters,
        n_batch: batchSize,
        n_threads: threads ?? '',
        n_prompt: prompt,
        n_gen: output,
        n_depth: depth,
        n_parallel: parallel,
        avg_ns: Math.round(mean(nanoseconds)),
        stddev_ns: Math.round(deviation(nanoseconds)),
        avg_ts: mean(speeds),
        stddev_ts: deviation(speeds),
        samples_ns: nanoseconds,
        samples_ts: speeds,
      }
    }
    return [row(promptTokens, 0, 0, prefill), row(0, outputTokens, promptTokens, decode)]
  })
}

/** Rows with llama-batched-bench's fields; times are means. */
export function batchedBenchRows(all: readonly EngineTimes[], context: RowContext) {
  return all.map(({ promptTokens: pp, outputTokens: tg, parallel: pl, prefill, decode }) => {
    const [tPp, tTg] = [mean([...prefill]), mean([...decode])]
    const kv = pl * (pp + tg)
    return {
      n_kv_max: context.contextSize * pl,
      n_batch: context.batchSize,
      n_threads: context.threads ?? '',
      pp,
      tg,
      pl,
      n_kv: kv,
      t_pp: tPp,
      speed_pp: (pl * pp) / tPp,
      t_tg: tTg,
      speed_tg: (pl * tg) / tTg,
      t: tPp + tTg,
      speed: kv / (tPp + tTg),
    }
  })
}

const deviation = (values: readonly number[]) =>
  values.length < 2 ? 0 : sampleStandardDeviation([...values])

/** Rows as `json`, `jsonl` or `csv`. */
export function writeRows(rows: readonly CsvRow[], format: 'json' | 'jsonl' | 'csv'): string {
  if (format === 'json') return `${JSON.stringify(rows, undefined, 2)}\n`
  if (format === 'jsonl') return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  return csvOf(rows.map(({ samples_ns: _ns, samples_ts: _ts, ...row }) => row))
}

/** llama-bench's table. */
export function llamaBenchTable(all: readonly EngineTimes[], context: RowContext): string {
  const { model, backend } = context
  const lines = llamaBenchRows(all, context).map((row) => {
    const test = row.n_prompt > 0 ? `pp${row.n_prompt}` : `tg${row.n_gen} @ d${row.n_depth}`
    const times = row.n_parallel > 1 ? ` × ${row.n_parallel}` : ''
    const speed = `${row.avg_ts.toFixed(2)} ± ${row.stddev_ts.toFixed(2)}`
    const size = `${(model.sizeBytes / 2 ** 20).toFixed(2)} MiB`
    const parameters = `${(model.parameters / 1e6).toFixed(2)} M`
    return `| ${row.model_type} | ${size} | ${parameters} | ${backend} | ${test}${times} | ${speed} |\n`
  })
  const head =
    '| model | size | params | backend | test | t/s |\n| --- | ---: | ---: | --- | ---: | ---: |\n'
  return head + lines.join('')
}

/** llama-batched-bench's table. */
export function batchedBenchTable(all: readonly EngineTimes[], context: RowContext): string {
  const lines = batchedBenchRows(all, context).map((row) => {
    const whole = [row.pp, row.tg, row.pl, row.n_kv]
    const { t_pp, speed_pp, t_tg, speed_tg, t, speed } = row
    const numbers = [t_pp, speed_pp, t_tg, speed_tg, t, speed].map((value, index) =>
      value.toFixed(index % 2 === 0 ? 3 : 2),
    )
    return `|${[...whole, ...numbers].join('|')}|\n`
  })
  const head = '|PP|TG|B|N_KV|T_PP s|S_PP t/s|T_TG s|S_TG t/s|T s|S t/s|\n'
  return `${head}${'|---:'.repeat(10)}|\n${lines.join('')}`
}
