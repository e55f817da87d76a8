import { CllmError } from '@cllm/core'

/** An `invalid_dataset` error that names the file and, where known, the line (from 1). */
export function datasetError(file: string, line: number | undefined, problem: string): CllmError {
  const place = line === undefined ? file : `${file}:${line}`
  return new CllmError('invalid_dataset', `${place}: ${problem}`, {
    details: { file, ...(line === undefined ? {} : { line }) },
  })
}
