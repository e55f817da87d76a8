import type { EngineClient, OutputConstraint, Prompt, SurroundedJson } from '@cllm/core'
import { type FieldConstraint, onlyConstraint } from '../request/constraint.js'
import type { AnswerForm } from './answer/create-answer-parser.js'
import type { ForcedCalls } from './forced-calls.js'
import type { PreparedChat } from './prepare-chat.js'
import { shownTools, thoughtsEnd } from './strict-calls.js'
import { writtenCalls } from './written-calls.js'

/** A conversation for the engine, as `prepareChat` makes it or with another prompt. */
export type PreparedPrompt = Omit<PreparedChat, 'prompt' | 'messages'> & { readonly prompt: Prompt }

/** What an answer is held to, and what it may hold then. */
export interface HeldAnswer {
  readonly prompt: Prompt
  readonly form: AnswerForm
  readonly constraint: OutputConstraint | undefined
  /** The same where the thoughts were ended. */
  readonly afterThinking?: OutputConstraint | undefined
}

/**
 * Holds an answer to what a client asks for. JSON and tools go together: the answer is either JSON of that
 * form or a call of a tool, and where calls are forced it is a call. A prompt that opens the thoughts has
 * them come first; other grammars have no room for them, so they are closed.
 *
 * @param asked - the fields that may ask for a form; at most one does
 * @throws CllmError `invalid_request` when two fields ask for something, or `unsupported`
 */
export async function holdAnswer(
  client: EngineClient,
  { prompt, form, calls, callsAfterThinking: afterThinking, strict = [] }: PreparedPrompt,
  asked: readonly (FieldConstraint | undefined)[],
  forced?: ForcedCalls,
): Promise<HeldAnswer> {
  const wanted = await onlyConstraint(client, asked)
  const isJson = wanted?.type === 'json' || wanted?.type === 'json-schema'
  const tools = [
    forced && { field: 'tool_choice', constraint: forced.constraint },
    calls && { field: 'tools', constraint: calls },
  ]
  if (wanted === undefined || (isJson && forced !== undefined)) {
    const constraint = await onlyConstraint(client, tools)
    return { prompt, form, afterThinking, ...forced, constraint }
  }
  if (!isJson) {
    await onlyConstraint(client, [...asked, ...tools])
    return { ...closed(prompt, form), constraint: wanted }
  }
  const schema = wanted.type === 'json' ? { type: 'object' } : wanted.schema
  const beside = await besideJson(client, form, strict)
  const held = { type: 'json-schema', schema, ...(beside.or && { or: beside.or }) } as const
  const trigger = thoughtsEnd(form)
  if (trigger === undefined) {
    const constraint = beside.or === undefined ? wanted : held
    return { prompt, form: { ...beside.form, thinks: false }, constraint }
  }
  const constraint = { ...held, type: 'triggered-json', trigger } as const
  return { prompt, form: beside.form, constraint, afterThinking: held }
}

/** The calls that may come in place of JSON; those of tools that are not strict have any arguments. */
async function besideJson(
  client: EngineClient,
  form: AnswerForm,
  strict: readonly string[],
): Promise<{ readonly form: AnswerForm; readonly or?: SurroundedJson }> {
  if (form.tools.length === 0) return { form }
  const several = form.mostCalls === 1 ? false : undefined
  const written = await writtenCalls(client, form, shownTools(form.tools, strict), several)
  return { form: written.form, or: written.json }
}

/** The prompt with its thoughts closed, if it opens any. */
function closed(prompt: Prompt, form: AnswerForm): Pick<HeldAnswer, 'prompt' | 'form'> {
  const { thinking } = form.format
  const kept = { ...form, thinks: false }
  if (!form.thinks || !form.thinkingIsOpen || thinking === undefined || !('messages' in prompt)) {
    return { prompt, form: kept }
  }
  const template = { ...prompt.template, suffix: thinking.close }
  return { prompt: { ...prompt, template }, form: { ...kept, thinkingIsOpen: false } }
}
