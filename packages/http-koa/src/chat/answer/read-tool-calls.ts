import type { ToolCall } from './answer-part.js'
import { isObject } from '../../fields/fields.js'

/**
 * The calls in a piece of JSON: one `{"name", "arguments"}` or a list of them, in the spellings of
 * Hermes and Qwen, Llama 3 (`parameters`), Mistral and OpenAI (`function`). Undefined when it is
 * something else, or calls what is not among `names`.
 */
export function readToolCalls(json: string, names: ReadonlySet<string>): ToolCall[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    return undefined
  }
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
  const text = typeof given === 'string' ? asObjectText(given) : asText(given)
  return text === undefined ? undefined : { name, arguments: text }
}

const asText = (value: unknown): string | undefined =>
  isObject(value) ? JSON.stringify(value) : undefined

/** Some models write the arguments' JSON as a text. */
function asObjectText(text: string): string | undefined {
  try {
    return asText(JSON.parse(text))
  } catch {
    return undefined
  }
}
