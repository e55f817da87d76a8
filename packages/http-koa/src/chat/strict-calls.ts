import {
  type EitherJson,
  type JsonSchema,
  type OutputConstraint,
  defined,
  type EngineClient,
  type SurroundedJson,
} from '@cllm/core'
import { longestAny } from './answer/answer-marks.js'
import type { AnswerForm } from './answer/create-answer-parser.js'
import type { CallFormat, CallObject, ToolDefinition } from './format/chat-format.js'
import { anyText, callObject, escaped, isTag, segmentsOf, toolName } from './format/chat-format.js'
import { bareCalls } from './format/known-formats.js'
import { areText } from './format/known-templates.js'

/** The schema of a call of one of these tools. */
function callsSchema(tools: readonly ToolDefinition[], keys = callObject): JsonSchema {
  const [only] = tools
  if (only !== undefined && tools.length === 1) return callSchema(only, keys)
  return { anyOf: tools.map((tool) => callSchema(tool, keys)) }
}

function callSchema(
  { function: { name, parameters } }: ToolDefinition,
  { nameKey, argumentsKey }: CallObject,
): JsonSchema {
  // an `$id` of its own, as its references are relative to its own root
  const { $id } = (parameters ?? {}) as { readonly $id?: unknown }
  const isAddress = typeof $id === 'string' && !$id.startsWith('#')
  const given =
    parameters === undefined
      ? { type: 'object' }
      : { ...parameters, $id: isAddress ? $id : `tool:${name}` }
  return {
    type: 'object',
    properties: { [nameKey]: { const: name }, [argumentsKey]: given as JsonSchema },
    required: [nameKey, argumentsKey],
    additionalProperties: false,
  }
}

/** The format of strict calls, and the constraint that enforces it. */
export interface StrictCalls {
  readonly constraint: OutputConstraint
  /** The only format of calls in the answer. */
  readonly call: CallFormat
}

/**
 * Constrains tool calls to their schemas in an answer that may also be text; the constraint begins where a call begins.
 * If the model's own format has no JSON objects, calls become such: behind the mark that begins a call, only JSON is
 * allowed.
 *
 * @param strict - the tools whose arguments must match their schemas; other tools take any object
 */
export function strictCalls(
  tools: readonly ToolDefinition[],
  strict: readonly string[],
  form: AnswerForm,
): StrictCalls {
  const shown = shownTools(tools, strict)
  const thoughts = thoughtsOf(form)
  const isSingle = form.mostCalls === 1
  const call = strictForm(form.format)
  const type = 'triggered-json'
  const named = call.head === '' ? namedForm(form.format) : undefined
  if (named !== undefined) return namedCalls(shown, named, thoughts)
  const before = `^${thoughts}`
  if (call.head === '') {
    const schema = callsSchema(shown, objectKeys(call))
    return { constraint: { type, trigger: `${before}\\s*(?=\\{)`, schema }, call }
  }
  const constraint = {
    type,
    trigger: `${before}[\\s\\S]*?${patternOf(call.head)}`,
    schema: schemaIn(call, shown, !isSingle),
    ...closingOf(call),
  } as const
  const isLast = isSingle || call.closings.length === 0 || nextOf(call) === undefined
  return { constraint: isLast ? constraint : { ...constraint, next: call.head }, call }
}

/** The schema for calls of these tools in a format. */
function schemaIn(call: CallFormat, tools: readonly ToolDefinition[], several: boolean) {
  const keys = objectKeys(call)
  const items = callsSchema(tools, keys)
  if (keys.isList !== true) return items
  return { type: 'array', items, minItems: 1, ...(several ? {} : { maxItems: 1 }) }
}

/** The format of calls whose mark contains the tool's name, followed by JSON. */
function namedForm({ own }: AnswerForm['format']): CallFormat | undefined {
  if (own === undefined || !own.head.includes(toolName)) return undefined
  return { ...own, section: '', arguments: { kind: 'json' }, closings: own.closings.slice(0, 1) }
}

/** A constraint that begins before the name, so that each tool has its own arguments. */
function namedCalls(
  tools: readonly ToolDefinition[],
  call: CallFormat,
  thoughts: string,
): StrictCalls {
  const [mark = '', behind = ''] = call.head.split(toolName)
  const [closing = ''] = call.closings
  const afterName = behind.trim() === '' ? fewSpaces : patternOf(behind, fewSpaces)
  const written = tools.map(({ function: { name, parameters } }) => ({
    schema: (parameters ?? { type: 'object' }) as JsonSchema,
    before: `${escaped(name)}${afterName}`,
    // text that only separates calls does not end one
    ...(isTag(closing) && { closing }),
  }))
  const json = written.reduceRight<EitherJson | undefined>(
    (or, one) => ({ ...one, ...(or && { or }) }),
    undefined,
  )!
  const names = tools.map(({ function: { name } }) => escaped(name)).join('|')
  const begins =
    mark.trim() === ''
      ? `\\s*(?=(?:${names})${patternOf(behind)}\\s*\\{)`
      : `[\\s\\S]*?${patternOf(mark)}`
  const trigger = `^${thoughts}${begins}`
  return { constraint: { type: 'triggered-json', trigger, ...json }, call }
}

/** The keys of a call's object. */
const objectKeys = (call: CallFormat): CallObject =>
  call.arguments.kind === 'object' ? call.arguments : callObject

/** The format of calls as JSON objects behind a mark that nothing else in an answer uses. */
function strictForm({ own, thinking, frame }: AnswerForm['format']): CallFormat {
  const bare = { section: '', head: '', arguments: callObject, closings: [] }
  if (own === undefined || own.arguments.kind === 'object') return own ?? bare
  const { open = '', close = '' } = thinking ?? {}
  const others = [open, close, frame.open, ...frame.closings].join('')
  const mark = segmentsOf(own.section + own.head).find(
    // the JSON contains the tool's name, so the mark before it must not
    (piece) => isTag(piece) && !piece.includes(toolName) && !others.includes(piece),
  )
  if (mark === undefined) return bare
  const closings = own.closings.filter((closing) => closing === `</${mark.slice(1)}`)
  return { ...bare, head: mark, closings }
}

/** The end of a call, for a constraint. */
const closingOf = ({ closings: [closing] }: CallFormat): { readonly closing?: string } =>
  closing === undefined || closing === ';' ? {} : { closing }

/** The text before a further call; undefined: calls are in one list, or it is unknown. */
function nextOf(call: CallFormat): string | undefined {
  if (call.head.includes(anyText) || objectKeys(call).isList === true) return undefined
  return call.closings[0] === ';' ? ';' : call.head
}

/** A pattern for the end of reasoning that the prompt has opened; undefined: none is open. */
export function thoughtsEnd({ thinks, thinkingIsOpen, format }: AnswerForm): string | undefined {
  if (!thinks || !thinkingIsOpen || format.thinking === undefined) return undefined
  return `^[\\s\\S]*?${escaped(format.thinking.close)}`
}

/** A pattern for the reasoning before an answer. */
function thoughtsOf({ thinks, thinkingIsOpen, format: { thinking } }: AnswerForm): string {
  if (!thinks || thinking === undefined) return ''
  const [open, close] = [escaped(thinking.open), escaped(thinking.close)]
  if (thinkingIsOpen) return `[\\s\\S]*?${close}`
  return `(?:\\s*${open}[\\s\\S]*?${close}|(?!\\s*${open}))`
}

/** A pattern for limited white space in constrained text, as a small model would write it for ever. */
export const fewSpaces = String.raw`\s{0,3}`

/** A pattern for a call's mark, which matches the same texts as the reader of calls. */
const patternOf = (mark: string, spaces = String.raw`\s*`): string =>
  escaped(mark).replaceAll(/\s+/g, spaces).replaceAll(anyText, `[^<\\n]{0,${longestAny}}?`)

/** The tools with the schemas of strict ones only. */
export const shownTools = (tools: readonly ToolDefinition[], strict: readonly string[]) =>
  tools.map((tool) => (strict.includes(tool.function.name) ? tool : withoutSchema(tool)))

const withoutSchema = ({ type, function: { name } }: ToolDefinition): ToolDefinition => ({
  type,
  function: { name },
})

/**
 * Calls of these tools in the model's own format if its marks are plain text, else as bare JSON.
 *
 * @param several - whether several calls are allowed; default: only if the model has its own format, as a model that was
 *   never trained on one may not stop
 */
export async function writtenCalls(
  client: EngineClient,
  form: AnswerForm,
  tools: readonly ToolDefinition[],
  several?: boolean,
) {
  const own = strictForm(form.format)
  const isOwn = own.head !== '' && (await areText(client, own.head, ...own.closings))
  const areMany = several ?? isOwn
  if (isOwn) {
    const before = `${fewSpaces}${patternOf(own.head, fewSpaces)}`
    const next = areMany ? nextOf(own) : undefined
    const schema = schemaIn(own, tools, areMany)
    const json: SurroundedJson = { schema, before, ...closingOf(own), ...defined({ next }) }
    return { json, form: { ...form, format: { ...form.format, calls: [own] } }, isOwn }
  }
  const json: SurroundedJson = { schema: callsSchema(tools), ...(areMany ? { next: ';' } : {}) }
  const { calls } = form.format
  const isRead = calls.some(({ head, arguments: { kind } }) => head === '' && kind === 'object')
  const read = isRead ? calls : [...calls, ...bareCalls]
  return { json, form: { ...form, format: { ...form.format, calls: read } }, isOwn }
}
