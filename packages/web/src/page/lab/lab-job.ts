import type { PolicySetting, Recording } from '@cllm/core'
import { randomNumbers } from '@cllm/scheduler'
import { parsedJson } from '../parts/format.js'
import { promptIds, type SimulatedRequest } from '@cllm/simulation'

/** A file with a load: a recording, or a trace. */
export interface LoadFile {
  readonly name: string
  readonly text: string
  readonly isRecording: boolean
  /** The slots of the server that made the recording. */
  readonly slots?: number
}

/** A job of the lab: a load, a machine, and the policies to compare. */
export interface LabJob {
  /** The last minutes of a server, a file, or a made load. */
  readonly load:
    | { readonly kind: 'recording'; readonly recording: Recording }
    | ({ readonly kind: 'file'; readonly requests: number } & LoadFile)
    | { readonly kind: 'made'; readonly load: MadeLoad }
  /** A built-in machine's name, or `recorded`: fitted to the steps of the recording. */
  readonly machine: string
  readonly slots: number
  /** The rank of a request in the order `own`, as code; the lowest goes first. */
  readonly ownOrder: string
  /** The policies to try. */
  readonly candidates: readonly PolicySetting[]
}

/** A file that the user chose; problems in it are reported when the job runs. */
export function toLoadFile(name: string, text: string): LoadFile {
  type Known = { readonly kind?: unknown; readonly limits?: { readonly slots?: unknown } }
  // a trace is lines of JSON, or CSV
  const { kind, limits } = (parsedJson(text) ?? {}) as Known
  const isRecording = kind === 'recording'
  const slots = isRecording ? limits?.slots : undefined
  return { name, text, isRecording, ...(typeof slots === 'number' && { slots }) }
}

/** A moderate load for a first try. */
export const usualLoad = {
  requests: 200,
  /** Requests per second; the times between them are random. */
  rate: 12,
  /** Mean tokens of prompts and of answers; every fourth prompt is eight times as long. */
  promptTokens: 500,
  answerTokens: 100,
  /** Tokens of the prefix that all prompts share. */
  sharedTokens: 256,
  tenants: 2,
  seed: 1,
}

/** A load that is generated from figures. */
export type MadeLoad = Readonly<typeof usualLoad>

/** The requests of a made load. The same load makes the same requests. */
export function madeRequests(load: MadeLoad): SimulatedRequest[] {
  const { promptTokens, answerTokens, sharedTokens, tenants, rate } = load
  const draw = randomNumbers(load.seed)
  const random = (): number => draw() / 2 ** 32
  let arrival = 0
  return Array.from({ length: load.requests }, (_, index) => {
    arrival += (-Math.log(1 - random()) / rate) * 1000
    const isLong = index % 4 === 3
    const own = Math.max(1, Math.round(promptTokens * (0.5 + random()) * (isLong ? 8 : 1)))
    const parts = [
      { key: 'shared', tokens: sharedTokens },
      { key: `own ${load.seed} ${index}`, tokens: own },
    ]
    return {
      id: String(index),
      arrival,
      prompt: () => promptIds(parts),
      maxTokens: Math.max(1, Math.round(answerTokens * (0.5 + random()))),
      // The first tenant sends most of the requests.
      tenant: `tenant ${Math.floor(random() ** 2 * tenants) + 1}`,
    }
  })
}
