import { defined, type EngineClient, type SurroundedJson } from '@cllm/core'
import type { AnswerForm } from '../answer/create-answer-parser.js'
import {
  callsSchema,
  closingOf,
  fewSpaces,
  nextOf,
  patternOf,
  schemaIn,
  strictForm,
} from './strict-calls.js'
import type { ToolDefinition } from '../format/chat-format.js'
import { bareCalls } from '../format/known-formats.js'
import { areText } from '../format/known-templates.js'

/** How a grammar has a model write calls. */
export interface WrittenCalls {
  readonly json: SurroundedJson
  /** The form of an answer that may hold them. */
  readonly form: AnswerForm
  /** Whether that is the model's own way. */
  readonly isOwn: boolean
}

/**
 * Calls of these tools as the model writes them where its marks are text, else as bare JSON.
 *
 * @param several - whether there may be further calls; default: where the model has its own way to write
 *   them, as a model that was never taught any may not come to an end
 */
export async function writtenCalls(
  client: EngineClient,
  form: AnswerForm,
  tools: readonly ToolDefinition[],
  several?: boolean,
): Promise<WrittenCalls> {
  const own = strictForm(form.format)
  const isOwn = own.head !== '' && (await areText(client, own.head, ...own.closings))
  const areMany = several ?? isOwn
  if (isOwn) {
    const before = `${fewSpaces}${patternOf(own.head, fewSpaces)}`
    const next = areMany ? nextOf(own) : undefined
    const schema = schemaIn(own, tools, areMany)
    const json = { schema, before, ...closingOf(own), ...defined({ next }) }
    return { json, form: { ...form, format: { ...form.format, calls: [own] } }, isOwn }
  }
  const json = { schema: callsSchema(tools), ...(areMany ? { next: ';' } : {}) }
  const { calls } = form.format
  const isRead = calls.some(({ head, arguments: { kind } }) => head === '' && kind === 'object')
  const read = isRead ? calls : [...calls, ...bareCalls]
  return { json, form: { ...form, format: { ...form.format, calls: read } }, isOwn }
}
