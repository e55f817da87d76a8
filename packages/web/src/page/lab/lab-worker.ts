import type { LabJob } from './lab-job.js'
import { type LabResult, openJob, runCandidate } from './run-lab.js'

/** A message of the worker: the next candidate's result, or why the job failed. */
export type LabMessage =
  | { readonly type: 'result'; readonly result: LabResult }
  | { readonly type: 'failed'; readonly problem: string }
  | { readonly type: 'done' }

const tell = (message: LabMessage): void => postMessage(message)

addEventListener('message', ({ data }: MessageEvent<LabJob>) => void run(data))

async function run(job: LabJob): Promise<void> {
  let opened: ReturnType<typeof openJob> | undefined
  for (const candidate of job.candidates) {
    try {
      opened ??= openJob(job)
      tell({ type: 'result', result: await runCandidate(job, candidate, opened) })
    } catch (error) {
      tell({ type: 'failed', problem: `${candidate.policy}: ${(error as Error).message}` })
    }
  }
  tell({ type: 'done' })
}
