import { type LabJob, type LabResult, machineOf, runCandidate } from './run-lab.js'

/** What the worker tells: a result for each candidate in their order, or why there is none. */
export type LabMessage =
  | { readonly type: 'result'; readonly result: LabResult }
  | { readonly type: 'failed'; readonly policy: string; readonly message: string }
  | { readonly type: 'done' }

const tell = (message: LabMessage): void => postMessage(message)

addEventListener('message', ({ data }: MessageEvent<LabJob>) => void run(data))

async function run(job: LabJob): Promise<void> {
  let machine: ReturnType<typeof machineOf> | undefined
  for (const candidate of job.candidates) {
    try {
      machine ??= machineOf(job)
      tell({ type: 'result', result: await runCandidate(job, candidate, machine) })
    } catch (error) {
      tell({ type: 'failed', policy: candidate.policy, message: (error as Error).message })
    }
  }
  tell({ type: 'done' })
}
