import { attempt } from '@cllm/core'
import type { WorkerOrder } from '../messages.js'

/**
 * The number of what fronts and workers say to each other. Processes with another one do not work together: it
 * goes up with every change that an older one would misread.
 */
export const protocol = 3

/** Characters of an envelope at most; longer ones are not read, and not sent. */
export const mostCharacters = 64 * 2 ** 20

/** An envelope of a link. */
export interface Envelope<Message = unknown> {
  readonly link: string
  /** The number of the message on it, from 1, for each direction; 0: the other side has closed it. */
  readonly number: number
  /** Absent: a sign of life. */
  readonly message?: Message | undefined
}

/** An envelope that no process of this cluster and protocol has written. */
export interface RefusedEnvelope {
  readonly refused: string
}

/** Says what is wrong with a message; undefined: nothing. */
export type CheckMessage = (message: unknown) => string | undefined

/** An envelope of a link as text: `[protocol, link, number, message]`. */
export function writeEnvelope(link: string, number: number, message?: unknown): string {
  return JSON.stringify(
    message === undefined ? [protocol, link, number] : [protocol, link, number, message],
  )
}

/** An envelope to a worker that belongs to no link, as text. */
export const writeOrder = ({ order, migrate = false }: WorkerOrder): string =>
  JSON.stringify([protocol, { order, migrate }])

/** Reads what a mailbox holds: anybody who can use the server may have written it. */
export function readEnvelope<Message>(
  text: string,
  check: CheckMessage = () => undefined,
): Envelope<Message> | WorkerOrder | RefusedEnvelope {
  if (text.length > mostCharacters) return { refused: `it has ${text.length} characters` }
  const value: unknown = attempt(() => JSON.parse(text))
  if (value === undefined) return { refused: 'it is no JSON' }
  if (!Array.isArray(value)) return { refused: 'it is of another protocol, or none' }
  const [its, link, number, message] = value as readonly unknown[]
  if (its !== protocol) return { refused: `its protocol is not ${protocol}` }
  if (typeof link === 'object') return readOrder(link)
  if (typeof link !== 'string') return { refused: 'it names no link' }
  if (!Number.isSafeInteger(number) || (number as number) < 0) {
    return { refused: 'its number is none' }
  }
  const wrong = message === undefined ? undefined : check(message)
  if (wrong !== undefined) return { refused: wrong }
  return { link, number: number as number, message: message as Message | undefined }
}

function readOrder(value: object | null): WorkerOrder | RefusedEnvelope {
  const { order, migrate } = (value ?? {}) as Record<string, unknown>
  if (order !== 'drain') return { refused: 'it is an unknown order' }
  return { order, migrate: migrate === true }
}
