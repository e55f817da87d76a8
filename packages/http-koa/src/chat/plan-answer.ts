import type { EngineClient, OutputConstraint, Prompt } from '@cllm/core'
import { type FieldConstraint, onlyConstraint } from '../request/build-request.js'
import { expectedField } from '../request/refusals.js'
import type { AnswerForm } from './answer/create-answer-parser.js'
import type { StrictCalls } from './strict-calls.js'
import { fewSpaces, shownTools, strictCalls, thoughtsEnd, writtenCalls } from './strict-calls.js'
import { marksOf, type ToolDefinition, escaped } from './format/chat-format.js'
import { areText } from './format/known-templates.js'
import type { PreparedChat } from './prepare-chat.js'

/** The parts of an engine's request that depend on the conversation, and how its answer is read. */
export interface AnswerPlan {
  readonly prompt: Prompt
  /** The form by which the answer is read. */
  readonly form: AnswerForm
  /** The constraint on the answer; undefined: none. */
  readonly constraint: OutputConstraint | undefined
  /** The marks that the model may write around text, reasoning and calls. */
  readonly marks: readonly string[] | undefined
}

/** The tools of which an answer must call one, and contain nothing else. */
export interface ForcedTools {
  readonly tools: readonly ToolDefinition[]
  /**
   * Whether several calls are allowed; default: only if the model has its own format of calls, as a model that was never
   * trained on one may not stop.
   */
  readonly several?: boolean | undefined
}

/**
 * The tools of which an answer must call one: all of the client's, or the one with this name, which is called once.
 *
 * @param expected - the expected values of the choice, for the message
 * @throws CllmError `invalid_request` where there is no such tool
 */
export function forcedTools(
  tools: readonly ToolDefinition[],
  expected: string,
  { name, several }: { readonly name: unknown; readonly several: boolean | undefined },
): ForcedTools {
  const isNamed = name !== undefined
  const chosen = isNamed ? tools.filter((tool) => tool.function.name === name) : tools
  if (chosen.length === 0) throw expectedField('tool_choice', expected)
  return { tools: chosen, several: isNamed ? false : several }
}

/** What a client asks for. */
export interface WantedAnswer {
  /** The constraints of the fields that can ask for one; at most one may. */
  readonly asked?: readonly (FieldConstraint | undefined)[]
  readonly forced?: ForcedTools | undefined
}

/** A conversation for the engine, from `prepareChat` or with another prompt. */
export type PlannedChat = Omit<PreparedChat, 'prompt'> & { readonly prompt: Prompt }

type Held = Omit<AnswerPlan, 'prompt' | 'marks'>

/**
 * Plans the answer to a conversation. JSON and tools can be combined: the answer is then either JSON of the requested form
 * or a tool call; forced calls are always calls. If the prompt opens reasoning, that comes first; a client's own grammar
 * has no place for reasoning, so it is closed before.
 *
 * @throws CllmError `invalid_request` when two fields ask for something, or `unsupported`
 */
export async function planAnswer(
  client: EngineClient,
  { prompt, form: whole, strict = [], marks: ofTemplate }: PlannedChat,
  { asked = [], forced }: WantedAnswer = {},
): Promise<AnswerPlan> {
  if (asked.length === 0 && forced === undefined && strict.length === 0) {
    return { prompt, form: whole, constraint: undefined, marks: ofTemplate }
  }
  const calls = strict.length === 0 ? undefined : strictCalls(whole.tools, strict, whole)
  const form = calls === undefined ? whole : strictForm(whole, calls)
  const marks = marksOf(form.format)
  const wanted = await onlyConstraint(client, asked)
  if (wanted !== undefined && wanted.type !== 'json' && wanted.type !== 'json-schema') {
    const beside = forced === undefined ? calls && 'tools' : 'tool_choice'
    const other = beside && { field: beside, constraint: wanted }
    await onlyConstraint(client, [...asked, other])
    return { ...closed(prompt, form), marks, constraint: wanted }
  }
  let plan: Held = { form, constraint: calls?.constraint }
  if (forced !== undefined) plan = await forcedCalls(client, prompt, form, forced)
  else if (wanted !== undefined) plan = await jsonAnswer(client, form, strict, wanted)
  const { constraint } = plan
  if (wanted === undefined && constraint !== undefined) {
    const field = forced === undefined ? 'tools' : 'tool_choice'
    await onlyConstraint(client, [{ field, constraint }])
  }
  return { prompt, marks, ...plan }
}

/** The form with strict calls, which are read in the one format in which they must be written. */
function strictForm(form: AnswerForm, { call }: StrictCalls): AnswerForm {
  const { format } = form
  // the model's own format is recognised, too, if no mark of it can be constrained by a schema
  const own = call.head === '' && format.own !== undefined ? [format.own] : []
  return { ...form, format: { ...format, calls: [...own, call] } }
}

/**
 * Constrains an answer to a call of one of these tools: in the model's own format if its marks are plain text, else as
 * bare JSON. A reasoning model may think first, and must if its prompt opens the reasoning.
 */
async function forcedCalls(
  client: EngineClient,
  prompt: Prompt,
  form: AnswerForm,
  { tools, several }: ForcedTools,
): Promise<Held> {
  const { json, form: read, isOwn } = await writtenCalls(client, form, tools, several)
  const called = { ...read, forced: tools.map((tool) => tool.function.name) }
  const held = { type: 'json-schema', ...json } as const
  const end = thoughtsEnd(form)
  if (end !== undefined) {
    return { form: called, constraint: { ...held, type: 'triggered-json', trigger: end } }
  }
  const template = 'messages' in prompt ? prompt.template : undefined
  const { enable_thinking: wish = true } = template?.variables ?? {}
  const { thinking } = form.format
  const mayThink =
    isOwn && form.thinks && thinking !== undefined && thinking.open !== '' && wish !== false
  if (!mayThink || !(await areText(client, thinking.open, thinking.close))) {
    return { form: { ...called, thinks: false }, constraint: held }
  }
  const thoughts = `(?:${fewSpaces}${escaped(thinking.open)}${upTo(thinking.close)}${escaped(thinking.close)})?`
  return { form: called, constraint: { ...held, before: `${thoughts}${json.before ?? ''}` } }
}

/** A pattern for any text before the mark. */
function upTo(mark: string): string {
  const [first = '', second = ''] = Array.from(mark, escapedInClass)
  return second === '' ? `[^${first}]*` : `(?:[^${first}]|[${first}][^${second}])*`
}

const escapedInClass = (sign: string): string => (/[\\\]^-]/.test(sign) ? `\\${sign}` : sign)

/** Constrains an answer to JSON or, if there are tools, to a call; tools that are not strict take any arguments. */
async function jsonAnswer(
  client: EngineClient,
  form: AnswerForm,
  strict: readonly string[],
  wanted: OutputConstraint,
): Promise<Held> {
  const schema = wanted.type === 'json-schema' ? wanted.schema : { type: 'object' }
  const several = form.mostCalls === 1 ? false : undefined
  const tools = shownTools(form.tools, strict)
  const written = tools.length > 0 ? await writtenCalls(client, form, tools, several) : undefined
  const { form: read = form, json: or } = written ?? {}
  const held = { type: 'json-schema', schema, ...(or && { or }) } as const
  const trigger = thoughtsEnd(form)
  if (trigger === undefined) {
    return { form: { ...read, thinks: false }, constraint: or === undefined ? wanted : held }
  }
  return { form: read, constraint: { ...held, type: 'triggered-json', trigger } }
}

/** The prompt with its reasoning closed, if it opens one. */
function closed(prompt: Prompt, form: AnswerForm): Pick<AnswerPlan, 'prompt' | 'form'> {
  const { thinking } = form.format
  const kept = { ...form, thinks: false }
  if (!form.thinks || !form.thinkingIsOpen || thinking === undefined || !('messages' in prompt)) {
    return { prompt, form: kept }
  }
  const template = { ...prompt.template, suffix: thinking.close }
  return { prompt: { ...prompt, template }, form: { ...kept, thinkingIsOpen: false } }
}
