import { writeFile } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import { chromeTrace, htmlReport, type ReportContent } from '@cllm/bench'

/** The files to write, and their content. */
export interface FilesOptions extends ReportContent {
  readonly report: string | undefined
  readonly trace: string | undefined
}

/** Writes the report and the timeline, each if its flag is given. */
export async function writeFiles({ report, trace, ...content }: FilesOptions): Promise<void> {
  if (report !== undefined) {
    await writeText(report, htmlReport(content))
  }
  if (trace !== undefined) await writeText(trace, JSON.stringify(chromeTrace(content.runs)))
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
