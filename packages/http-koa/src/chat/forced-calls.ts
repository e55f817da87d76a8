import { defined, type EngineClient, type JsonSchema, type OutputConstraint } from '@cllm/core'
import { callsSchema } from './calls-schema.js'
import { anyText, type CallFormat } from './format/chat-format.js'
import {
  closingOf,
  escaped,
  fewSpaces,
  nextOf,
  objectKeys,
  patternOf,
  strictForm,
  thoughtsEnd,
} from './strict-calls.js'
import type { PreparedChat } from './prepare-chat.js'
import type { ToolDefinition } from './tool-prompt.js'

/** What a forced call needs. */
export interface ForcedCalls {
  readonly prompt: PreparedChat['prompt']
  readonly form: PreparedChat['form']
  readonly constraint: OutputConstraint
  /** The same where the thoughts have ended. */
  readonly afterThinking: OutputConstraint
}

/**
 * Holds an answer to a call of one of these tools, written as the model writes calls where its marks are
 * text, else as bare JSON. A thinking model may think first, and does where its prompt opens the
 * thoughts.
 *
 * @param several - whether it may be further calls as well; default: where the model has its own way to
 *   write them, as a model that was never taught any may not come to an end
 */
export async function forcedCalls(
  client: EngineClient,
  { prompt, form }: Pick<PreparedChat, 'prompt' | 'form'>,
  tools: readonly ToolDefinition[],
  several?: boolean,
): Promise<ForcedCalls> {
  const own = strictForm(form.format)
  const isOwn = own.head !== '' && (await areText(client, own.head, ...own.closings))
  const areMany = several ?? isOwn
  const schema = isOwn ? schemaIn(own, tools, areMany) : callsSchema(tools)
  const head = isOwn ? `${fewSpaces}${patternOf(own.head, fewSpaces)}` : ''
  const around = isOwn ? { before: head, ...closingOf(own) } : {}
  const next = areMany ? (isOwn ? nextOf(own) : ';') : undefined
  const held = { type: 'json-schema', schema, ...around, ...defined({ next }) } as const
  const called = isOwn ? { ...form, format: { ...form.format, calls: [own] } } : form
  const end = thoughtsEnd(form)
  if (end !== undefined) {
    const constraint = { ...held, type: 'triggered-json', trigger: end } as const
    return { prompt, form: called, constraint, afterThinking: held }
  }
  const { enable_thinking: wish = true } = prompt.template?.variables ?? {}
  const { thinking } = form.format
  const mayThink =
    isOwn && form.thinks && thinking !== undefined && thinking.open !== '' && wish !== false
  if (!mayThink || !(await areText(client, thinking.open, thinking.close))) {
    return {
      prompt,
      form: { ...called, thinks: false },
      constraint: held,
      afterThinking: held,
    }
  }
  const thoughts = `(?:${fewSpaces}${escaped(thinking.open)}${upTo(thinking.close)}${escaped(thinking.close)})?`
  const constraint = { ...held, before: `${thoughts}${head}` }
  return { prompt, form: called, constraint, afterThinking: held }
}

function schemaIn(
  call: CallFormat,
  tools: readonly ToolDefinition[],
  several: boolean,
): JsonSchema {
  const keys = objectKeys(call)
  if (keys.isList !== true) return callsSchema(tools, keys)
  const items = callsSchema(tools, keys, '#/items')
  return { type: 'array', items, minItems: 1, ...(several ? {} : { maxItems: 1 }) }
}

/** Any text in which nothing begins as the mark does. */
function upTo(mark: string): string {
  const [first = '', second = ''] = Array.from(mark, escapedInClass)
  return second === '' ? `[^${first}]*` : `(?:[^${first}]|[${first}][^${second}])*`
}

const escapedInClass = (sign: string): string => (/[\\\]^-]/.test(sign) ? `\\${sign}` : sign)

/** Whether a model writes these marks as text: a grammar does not know control tokens. */
async function areText(client: EngineClient, ...marks: readonly string[]): Promise<boolean> {
  const parts = marks.flatMap((mark) => mark.split(anyText)).filter((part) => /\S/.test(part))
  const shown = await Promise.all(
    parts.map(async (part) =>
      client.detokenize(await client.tokenize(part.trim(), { addBos: false })),
    ),
  )
  return shown.every((text, index) => text.trim() === parts[index]!.trim())
}
