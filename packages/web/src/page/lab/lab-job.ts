import type { PolicySetting, Recording } from '@cllm/core'
import type { MadeLoad } from './load/made-load.js'

/** A file with a load: a recording, or a trace. */
export interface LoadFile {
  readonly name: string
  readonly text: string
  readonly isRecording: boolean
  /** The slots of the server that it was recorded on. */
  readonly slots?: number
}

/** What the lab is to do. */
export interface LabJob {
  /** The last minutes of a server, a file, or a made load. */
  readonly load:
    | { readonly kind: 'recording'; readonly recording: Recording }
    | ({ readonly kind: 'file'; readonly requests: number } & LoadFile)
    | { readonly kind: 'made'; readonly load: MadeLoad }
  /** A built-in machine's name, or `recorded`: as the steps of the recording took. */
  readonly machine: string
  readonly slots: number
  /** The rank of a request in the order `own`, as code; the lowest goes first. */
  readonly ownOrder: string
  /** The policies to try. */
  readonly candidates: readonly PolicySetting[]
}

/** A file as somebody chose it; what is wrong in it shows when it is run. */
export function toLoadFile(name: string, text: string): LoadFile {
  const plain = { name, text, isRecording: false }
  try {
    const { kind, limits } = JSON.parse(text) as {
      readonly kind?: unknown
      readonly limits?: { readonly slots?: unknown }
    }
    if (kind !== 'recording') return plain
    const { slots } = limits ?? {}
    return { ...plain, isRecording: true, ...(typeof slots === 'number' && { slots }) }
  } catch {
    return plain // lines of JSON, or CSV
  }
}
