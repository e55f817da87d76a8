import type { Recording } from '@cllm/core'
import { parseRecording, tracedRequests } from '@cllm/bench/traces'
import {
  builtInMachines,
  type MachineModel,
  recordedMachine,
  recordedRequests,
  type SimulatedRequest,
} from '@cllm/simulation'
import type { LabJob } from './lab-job.js'
import { madeRequests } from './load/made-load.js'

const usual = { contextSize: 8192, batchSize: 2048 }

/**
 * Reads what a job is about, once for all candidates: what a simulation takes besides a policy and slots. Throws where
 * its file is wrong, or has too few steps to tell what one costs.
 */
export function openJob(job: LabJob) {
  const recording = recordingOf(job)
  const requests = requestsOf(job, recording)
  if (requests.length === 0) throw new Error('There are no requests in it yet')
  const { kvTokens } = recording?.limits ?? {}
  const limits = recording?.limits ?? { ...usual, contextSize: roomFor(requests) }
  return {
    requests,
    machine: machineOf(job, recording),
    machines: recording?.engines ?? 1,
    contextSize: limits.contextSize,
    ...(kvTokens !== undefined && { kvTokens }),
    batchSize: Math.max(limits.batchSize, job.slots),
  }
}

function recordingOf({ load }: LabJob): Recording | undefined {
  if (load.kind === 'recording') return load.recording
  const isOne = load.kind === 'file' && load.isRecording
  return isOne ? parseRecording(load.text, load.name) : undefined
}

function requestsOf({ load }: LabJob, recording: Recording | undefined): SimulatedRequest[] {
  if (recording !== undefined) return recordedRequests(recording)
  if (load.kind === 'file') return tracedRequests(load.text, load.name, load.requests)
  return load.kind === 'made' ? madeRequests(load.load) : []
}

/** The longest request, rounded up to a multiple of 1,024; made loads have the usual room. */
function roomFor(requests: readonly SimulatedRequest[]): number {
  let longest = usual.contextSize
  for (const { prompt, maxTokens } of requests) {
    const { length } = typeof prompt === 'function' ? prompt() : prompt
    longest = Math.max(longest, length + maxTokens)
  }
  return Math.ceil(longest / 1024) * 1024
}

function machineOf({ machine }: LabJob, recording: Recording | undefined): MachineModel {
  if (recording !== undefined && machine === 'recorded') {
    return recordedMachine(recording, 'The recording')
  }
  const known = builtInMachines.get(machine)
  if (known === undefined) throw new Error(`There is no machine ${machine}`)
  return known
}
