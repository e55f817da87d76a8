import { attempt } from '@cllm/core'
import type { WorkerOrder } from '../messages.js'

/**
 * The version of the protocol between fronts and workers. Processes of different versions do not work together. It
 * is raised with every change that an older process would misread.
 */
export const protocol = 3

/** The most characters of an envelope; longer ones are neither read nor sent. */
export const mostCharacters = 64 * 2 ** 20

/** An envelope of a link. */
export interface Envelope<Message = unknown> {
  readonly link: string
  /** The number of the message, counted from 1 for each direction; 0: the sender has closed the link. */
  readonly number: number
  /** Absent in a heartbeat. */
  readonly message?: Message | undefined
}

/** Why an envelope is refused: no process of this cluster and protocol can have written it. */
export interface RefusedEnvelope {
  readonly refused: string
}

/** Says what is wrong with a message; undefined: it is valid. */
export type CheckMessage = (message: unknown) => string | undefined

/** An envelope of a link as text: `[protocol, link, number, message]`. */
export function writeEnvelope(link: string, number: number, message?: unknown): string {
  return JSON.stringify(
    message === undefined ? [protocol, link, number] : [protocol, link, number, message],
  )
}

/** An order to a worker as the text of an envelope without a link. */
export const writeOrder = ({ order, migrate = false }: WorkerOrder): string =>
  JSON.stringify([protocol, { order, migrate }])

/** Reads a text from a mailbox, which anybody who can use the server may have written. */
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
