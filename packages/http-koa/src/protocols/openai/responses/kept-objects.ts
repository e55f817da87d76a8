import type { FoundState } from '@cllm/core'

/** An item of a conversation, as a client sent it or as the server answered; each has an id here. */
export interface KeptItem {
  readonly id: string
  readonly type: string
  readonly [member: string]: unknown
}

/** A response as it is kept. */
export interface ResponseObject {
  readonly id: string
  readonly object: 'response'
  readonly status: string
  readonly background?: unknown
  readonly previous_response_id: string | null
  readonly output: readonly KeptItem[]
  readonly [member: string]: unknown
}

/** What makes several turns one conversation. */
export interface ConversationObject {
  readonly id: string
  readonly object: 'conversation'
  /** Seconds since the epoch. */
  readonly created_at: number
  readonly metadata: Readonly<Record<string, unknown>>
}

/** A response with the items that it answers, or a conversation with all of its items. */
export interface Kept<Kind = ResponseObject | ConversationObject> {
  readonly object: Kind
  readonly items: readonly KeptItem[]
  /** The fields of what asks for it, while it is computed in the background: whoever finds it unfinished goes on. */
  readonly fields?: object
  /** The server that computes it, and sets the time of its file meanwhile, until it has kept its end; undefined: none does. */
  readonly by?: string | undefined
}

/** What is kept, with its file. */
export type Found<Kind = Kept['object']> = Kept<Kind> & { readonly file: FoundState }

/** Whether it is a response without an end. */
export const isOpen = ({ object }: Kept): boolean =>
  'status' in object && object.status === 'in_progress'
