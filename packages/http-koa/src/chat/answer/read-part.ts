import type { AnswerPart } from './answer-part.js'

/** Also says where a call ends and what was written of it, and what is no part of the answer. */
export type ReadPart =
  | AnswerPart
  | { readonly type: 'dropped'; readonly text: string }
  | { readonly type: 'call-end'; readonly raw: string; readonly isWhole: boolean }
