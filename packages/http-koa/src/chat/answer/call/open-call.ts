import { isObject, objectText, parsedJson } from '../../../fields/fields.js'
import type { CallFormat } from '../../format/chat-format.js'
import type { ToolCall } from '../answer-part.js'
import type { CallReader } from './call-arguments.js'
import { argumentSchemas, JsonArguments, JsonScanner, TaggedArguments } from './call-arguments.js'
import { matchMark, type Tools } from '../answer-marks.js'
import { readLiteral } from './read-literal.js'

/** A call that has begun, with the place where its arguments begin; or calls that are complete. */
export type OpenedCall =
  | {
      readonly end: number
      readonly name: string
      readonly reader: CallReader
      readonly inList: boolean
    }
  | { readonly end: number; readonly calls: readonly ToolCall[]; readonly inList: boolean }

/** Whether a text begins with a call: the call, `no`, or `maybe` if more text decides. */
export type CallMatch = OpenedCall | 'maybe' | 'no'

/** The most characters before the arguments of a call; beyond that it is no call. */
export const longestHead = 1024

/** Whether a call in this format begins at the start of a text. */
export function openCall(format: CallFormat, text: string, tools: Tools, isNext = false) {
  const { kind } = format.arguments
  const isObject = kind === 'object' || kind === 'keyed'
  const names = [...tools.keys()]
  const marks = isNext ? [isObject ? '' : format.head] : headsOf(format)
  let best: CallMatch = 'no'
  for (const mark of marks) {
    const head = matchMark(mark, text, 0, names)
    if (head === 'maybe') best = 'maybe'
    if (typeof head === 'string') continue
    const found = isObject
      ? openObject(text, head.end, kind, tools)
      : openNamed(format, text, head.end, head.name ?? '', tools)
    if (typeof found !== 'string') return found
    if (found === 'maybe') best = 'maybe'
  }
  return best
}

/** The beginnings of a call. Calls in Python's form begin like text, so they need the mark before them. */
function headsOf({ section, head, arguments: { kind } }: CallFormat): string[] {
  if (section === '') return [head]
  return kind === 'literal' && !/[<[]/.test(head)
    ? [`${section} ${head}`]
    : [`${section} ${head}`, head]
}

function openNamed(
  format: CallFormat,
  text: string,
  end: number,
  name: string,
  tools: Tools,
): CallMatch {
  const { arguments: written } = format
  if (written.kind === 'tagged') {
    const schemas = argumentSchemas(tools.get(name)?.function.parameters)
    const reader = new TaggedArguments(written.marks, schemas, format.closings)
    return { end, name, reader, inList: false }
  }
  const start = end + (/\S/.exec(text.slice(end))?.index ?? text.length)
  const begins = written.kind === 'literal' && written.ends === ')' ? '(' : '{'
  if (start >= text.length) return text.length > longestHead ? 'no' : 'maybe'
  if (text[start] !== begins) return 'no'
  const isPython = /^\{\s*'/.test(text.slice(start))
  if (written.kind === 'json' && !isPython) {
    if (/^\{\s*$/.test(text.slice(start))) return 'maybe'
    return { end: start, name, reader: new JsonArguments(), inList: false }
  }
  const { ends, quote = '"' } = written.kind === 'literal' ? written : ({ ends: '}' } as const)
  const found = readLiteral(text.slice(start), ends, [quote, '"', "'"])
  if (found === undefined) return 'maybe'
  return { end: start + found.end, calls: [{ name, arguments: found.json }], inList: ends === ')' }
}

const member = String.raw`"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?[\d.]+|null|true|false)\s*,\s*`
/** The members of a call's object before its arguments; their names differ between models. */
const objectHead = new RegExp(
  String.raw`^\{\s*(?<before>(?:${member})*?)(?:"function"\s*:\s*\{\s*(?<inner>(?:${member})*?))?"(?:arguments|parameters|args|input)"\s*:\s*(?=\{)`,
)
const keyedHead = /^\{\s*"(?<name>[^"\\]+)"\s*:\s*(?=\{)/

function openObject(text: string, from: number, kind: 'object' | 'keyed', tools: Tools): CallMatch {
  const lead = /^\s*(\[)?\s*/.exec(text.slice(from))![0]
  const start = from + lead.length
  const inList = lead.includes('[')
  if (start >= text.length) return 'maybe'
  if (text[start] !== '{') return 'no'
  const body = text.slice(start)
  const head = (kind === 'keyed' ? keyedHead : objectHead).exec(body.slice(0, longestHead))
  const { before = '', inner = '', name: key } = head?.groups ?? {}
  const name = key ?? nameOf(inner) ?? nameOf(before)
  if (head !== null && name !== undefined) {
    if (!tools.has(name)) return 'no'
    return { end: start + head[0].length, name, reader: new JsonArguments(head[0]), inList }
  }
  const end = new JsonScanner().push(body)
  if (end === undefined) return 'maybe'
  const calls = readToolCalls(body.slice(0, end), new Set(tools.keys()))
  return calls === undefined ? 'no' : { end: start + end, calls, inList }
}

function nameOf(members: string): string | undefined {
  const read = parsedJson(`{${members.trim().replace(/,$/, '')}}`)
  if (!isObject(read)) return undefined
  const name = read['name'] ?? read['tool_name'] ?? read['function'] ?? read['tool']
  return typeof name === 'string' ? name : undefined
}

/**
 * The calls in a piece of JSON: one `{"name", "arguments"}` or a list of them, in the forms of Hermes and Qwen, Llama 3
 * (`parameters`), Mistral and OpenAI (`function`). Undefined for other JSON, and for calls of tools that are not in
 * `names`.
 */
function readToolCalls(json: string, names: ReadonlySet<string>): ToolCall[] | undefined {
  let value = parsedJson(json)
  if (isObject(value) && Array.isArray(value['tool_calls'])) value = value['tool_calls']
  const calls = (Array.isArray(value) ? value : [value]).map((entry) => readCall(entry, names))
  return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined
}

function readCall(value: unknown, names: ReadonlySet<string>): ToolCall | undefined {
  if (!isObject(value)) return undefined
  const { function: inner } = value
  if (isObject(inner)) return readCall(inner, names)
  const name = value['name'] ?? inner
  if (typeof name !== 'string' || !names.has(name)) return undefined
  const given = value['arguments'] ?? value['parameters'] ?? {}
  // some models write the arguments' JSON as a text
  const text = objectText(given)
  return text === undefined ? undefined : { name, arguments: text }
}
