import type { OutputConstraint } from '@cllm/core'
import type { AnswerForm } from './answer/create-answer-parser.js'
import { callsSchema } from './calls-schema.js'
import type { CallFormat } from './format/chat-format.js'
import { isTag, segmentsOf } from './format/segments.js'
import type { ToolDefinition } from './tool-prompt.js'

/** How strict calls are written, and what holds the model to it. */
export interface StrictCalls {
  readonly constraint: OutputConstraint
  /** The one form in which the answer may hold calls. */
  readonly call: CallFormat
}

/**
 * Constrains tool calls to their schemas in an answer that may also be text; the constraint starts
 * where a call starts. Calls that the model does not write as JSON objects become such: behind the mark
 * with which it begins a call there is nothing but JSON.
 *
 * @param strict - the tools whose arguments must match their schemas; other tools take any object
 */
export function strictCalls(
  tools: readonly ToolDefinition[],
  strict: readonly string[],
  form: AnswerForm,
): StrictCalls {
  const shown = tools.map((tool) =>
    strict.includes(tool.function.name) ? tool : withoutSchema(tool),
  )
  const thoughts = thoughtsOf(form)
  const isSingle = form.mostCalls === 1
  const own = form.format.calls.find(({ startsOnly }) => startsOnly !== true)
  const call = strictForm(form.format.calls[0]!, own)
  const type = 'triggered-json'
  const key = call.arguments.kind === 'object' ? call.arguments : object
  const names = { nameKey: key.nameKey, argumentsKey: key.argumentsKey }
  if (call.head === '') {
    const constraint = {
      type,
      trigger: `^${thoughts}\\s*(?=\\{)`,
      schema: callsSchema(shown, names),
    } as const
    return { constraint, call }
  }
  const trigger = `^${thoughts}[\\s\\S]*?${escaped(call.head)}`
  if (key.isList === true) {
    const items = callsSchema(shown, names, '#/items')
    const schema = { type: 'array', items, minItems: 1, ...(isSingle ? { maxItems: 1 } : {}) }
    return { constraint: { type, trigger, schema, ...closingOf(call) }, call }
  }
  const again = isSingle || call.closings.length === 0 ? {} : { next: call.head }
  return {
    constraint: { type, trigger, schema: callsSchema(shown, names), ...closingOf(call), ...again },
    call,
  }
}

const object: Extract<CallFormat['arguments'], { kind: 'object' }> = {
  kind: 'object',
  nameKey: 'name',
  argumentsKey: 'arguments',
}

/** The format in which calls are JSON objects behind a mark that no text has. */
function strictForm(first: CallFormat, own: CallFormat | undefined): CallFormat {
  const isObject = first.arguments.kind === 'object'
  if (isObject && (first.head === '' || !/\s/.test(first.head))) return first
  const [mark] = segmentsOf(first.section + first.head).filter(isTag)
  const bare = { section: '', head: '', arguments: object, closings: [] }
  if (own === undefined || mark === undefined) return bare
  return {
    ...bare,
    head: mark,
    closings: first.closings.filter((closing) => closing === `</${mark.slice(1)}`),
  }
}

const closingOf = ({ closings: [closing] }: CallFormat): { readonly closing?: string } =>
  closing === undefined || closing === ';' ? {} : { closing }

/** The reasoning before an answer, as part of a regular expression. */
function thoughtsOf({ thinks, thinkingIsOpen, format: { thinking } }: AnswerForm): string {
  if (!thinks || thinking === undefined) return ''
  const [open, close] = [escaped(thinking.open), escaped(thinking.close)]
  if (thinkingIsOpen) return `[\\s\\S]*?${close}`
  return `(?:\\s*${open}[\\s\\S]*?${close}|(?!\\s*${open}))`
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)

const withoutSchema = ({ type, function: { name } }: ToolDefinition): ToolDefinition => ({
  type,
  function: { name },
})
