import { writeFile } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import {
  chromeTrace,
  htmlReport,
  type ReportContent,
  requestsCsv,
  type Run,
  runsCsv,
  type Stopped,
} from '@cllm/bench'
import { terminalBar } from '../../process/terminal.js'
import type { Output } from '../command.js'
import type { LoadFlagValues } from './flags/load.js'

/** The flags that name a file for results. */
export type FileFlag = 'csv' | 'requests-csv' | 'report' | 'trace'

/**
 * Writes the report, the timeline and the tables, each if its flag is given.
 *
 * @param runs - those in the tables; default: those in the report
 */
export async function writeFiles(
  content: ReportContent,
  { report, trace, csv, 'requests-csv': requests }: Pick<LoadFlagValues, FileFlag>,
  runs: readonly Run[] = content.runs,
): Promise<void> {
  if (report !== undefined) await writeText(report, htmlReport(content))
  if (trace !== undefined) await writeText(trace, JSON.stringify(chromeTrace(content.runs)))
  if (csv !== undefined) await writeText(csv, runsCsv(runs))
  if (requests !== undefined) await writeText(requests, requestsCsv(runs))
}

/**
 * Writes a file.
 *
 * @throws `invalid_configuration` when it cannot be written
 */
export async function writeText(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text)
  } catch (error) {
    const message = `${file}: cannot be written: ${(error as Error).message}`
    throw new CllmError('invalid_configuration', message, { cause: error })
  }
}

/** The exit codes of the `cllm bench` commands. */
export const exitCode = {
  ok: 0,
  /** Nothing was measured: the target cannot be reached, or a run had no success. */
  failed: 1,
  /** A flag or an input file is wrong. */
  usage: 2,
  /** A target stopped during a run; the partial results are printed. */
  partial: 3,
  /** Interrupted, such as by Ctrl-C; the partial results are printed. */
  interrupted: 130,
} as const

/** The exit code for runs, each with its successful requests and why it stopped early, if so. */
export function exitCodeOf(
  runs: readonly { readonly ok: number; readonly stopped: Stopped | null }[],
): number {
  if (runs.some(({ stopped }) => stopped === 'interrupted')) return exitCode.interrupted
  if (runs.every(({ ok }) => ok === 0)) return exitCode.failed
  if (runs.some(({ stopped }) => stopped === 'target-gone')) return exitCode.partial
  return runs.some(({ ok }) => ok === 0) ? exitCode.failed : exitCode.ok
}

/** The progress of a run: a bar where `output` is a terminal, otherwise nothing. */
export function progressBar(output: Output, name: string, total: number | undefined) {
  if (output.isTTY !== true) return { step: () => undefined, stop: () => undefined }
  const format = total === undefined ? `${name} {value}` : `${name} {bar} {value} of {total}`
  const bar = terminalBar(output, format, { clearOnComplete: true })
  bar.start(total ?? 0, 0)
  return { step: () => bar.increment(), stop: () => bar.stop() }
}
