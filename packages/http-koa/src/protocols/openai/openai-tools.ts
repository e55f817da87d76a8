import { z } from 'zod'
import { object, parsedJson, isObject, list, type JsonObject } from '../../fields/fields.js'
import type { Logger } from '@cllm/core'
import { type ToolDefinition, toTool } from '../../chat/format/chat-format.js'
import { type ForcedTools, forcedTools } from '../../chat/plan-answer.js'
import { expectedField } from '../../request/refusals.js'

/** What every tool is, the same in chats and responses. OpenAI takes 64 characters; MCP's names, behind that of their server, are longer. */
const toolFields = {
  name: z.string('a name').regex(/^[\w.-]{1,256}$/, 'a name of up to 256 letters, digits, _ . -'),
  description: z.string('a string').nullish(),
}

/** A free-form tool that a client offers: its input is a text, not JSON. */
export const customSchema = z.object(
  { ...toolFields, format: object.nullish() },
  'an object with a name',
)

/** The input in the arguments of a call; what a model writes otherwise is the input as it is. */
export function customInput(written: string): string {
  const value = parsedJson(written)
  // what broke off shows as such
  if (typeof value !== 'object' || value === null) return written
  const [only, ...others] = Object.values(value) as unknown[]
  const input = 'input' in value ? value.input : others.length === 0 ? only : undefined
  return typeof input === 'string' ? input : written
}

const opening = /^\s*\{\s*"input"\s*:\s*"/
/** What of a text in JSON can be shown: letters, or an escape that is whole; two of them may be one character. */
const certain =
  /[^"\\]+|\\u[dD][89abAB][^]{2}(?:\\u[^]{4}|(?=[^\\]|\\[^u]))|\\u(?![dD][89abAB])[^]{4}|\\[^u]/y

/** What an escape stands for; a letter that needs none stands for itself. */
const unescaped = (escape: string): string =>
  (parsedJson(`"${escape}"`) as string | undefined) ?? escape.slice(1)

/** Takes the input out of arguments that come in pieces. */
export class CustomInput {
  #written = ''
  #at: number | undefined
  #isOver = false

  /** What is certain of the input with this piece. */
  push(piece: string): string {
    this.#written += piece
    if (this.#isOver) return ''
    if (this.#at === undefined) {
      const found = opening.exec(this.#written)
      if (found === null) return ''
      this.#at = found[0].length
    }
    let text = ''
    for (;;) {
      certain.lastIndex = this.#at
      const [found] = certain.exec(this.#written) ?? []
      if (found === undefined) break
      this.#at += found.length
      text += found.startsWith('\\') ? unescaped(found) : found
    }
    this.#isOver = this.#written[this.#at] === '"'
    return text
  }

  /** What was not certain until the end. */
  end(): string {
    if (this.#at !== undefined || this.#written.length === 0) return ''
    return customInput(this.#written)
  }
}

/** What a function is, the same in chats and responses. */
export const functionFields = {
  ...toolFields,
  parameters: object.nullish(),
  strict: z.boolean('true or false').nullish(),
}

const functionSchema = z.object(functionFields, 'an object with a name')

/** A function that a client offers. */
export type ClientFunction = z.output<typeof functionSchema> & {
  /** Whether it stands for a free-form tool. */
  readonly isCustom?: boolean
  /** How calls of it name it, where that differs. */
  readonly called?: { readonly name: string; readonly namespace?: string }
}

/** The functions that a client offers, by what the model calls them. */
export type FunctionsByName = ReadonlyMap<string, ClientFunction>

/** What models call a function, which may be of a namespace. */
export const joinedName = (name: string, namespace?: string | null): string =>
  typeof namespace === 'string' ? `${namespace}__${name}` : name

/**
 * A free-form tool as the function that models know: with a text as its only argument. A grammar of its
 * input is shown to the model, which is not held to it: the log says so.
 */
export function customAsFunction(
  { name, description, format }: z.output<typeof customSchema>,
  logger: Logger,
): ClientFunction {
  const { syntax, definition } = grammarOf(format ?? {})
  const said = [description ?? ''].filter((text) => text !== '')
  if (definition !== '') {
    said.push(`The input is text in this ${syntax} grammar:\n${definition}`)
    logger.warn({ tool: name, syntax }, 'the grammar of a free-form tool is shown, not enforced')
  }
  return {
    name,
    description: said.join('\n\n'),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string', description: 'The input of the tool as plain text' } },
      required: ['input'],
      additionalProperties: false,
    },
    isCustom: true,
  }
}

/** Chats have the grammar in a member of its own, responses beside the type. */
function grammarOf(format: JsonObject) {
  const { syntax, definition } = (format['grammar'] ?? format) as JsonObject
  return {
    syntax: typeof syntax === 'string' ? syntax.slice(0, 40) : '',
    definition: typeof definition === 'string' ? definition : '',
  }
}

/** The tools of a chat: functions and free-form tools. Others are passed over. */
export const toolsSchema = list(
  z.looseObject(
    {
      type: z.string('a type'),
      function: functionSchema.optional(),
      custom: customSchema.optional(),
    },
    'a tool of the type function',
  ),
  'an array of tools',
  { most: [1024, 'at most 1024 tools'] },
)

/**
 * The functions and free-form tools among the tools of a client. What this server cannot call (such as
 * searches) is passed over, so that the model answers without it; the log says so.
 */
export function functionsOf<Tool extends { readonly type: string }>(
  tools: readonly Tool[],
  logger: Logger,
  read: (tool: Tool, index: number) => ClientFunction | readonly ClientFunction[] | undefined,
): readonly ClientFunction[] {
  return tools.flatMap((tool, index) => {
    const found = read(tool, index)
    if (found !== undefined) return found
    const passed = { tool: index, type: tool.type.slice(0, 40) }
    logger.warn(passed, 'a tool that this server cannot call is passed over')
    return []
  })
}

/**
 * The functions and free-form tools of a chat, each in a member of its own.
 *
 * @throws `invalid_request` for one without a name
 */
export const functionsOfChat = (
  tools: z.output<typeof toolsSchema>,
  logger: Logger,
): readonly ClientFunction[] =>
  functionsOf(tools, logger, ({ type, function: called, custom }, index) => {
    if (type !== 'function' && type !== 'custom') return undefined
    if (type === 'function' && called !== undefined) return called
    if (type === 'custom' && custom !== undefined) return customAsFunction(custom, logger)
    throw expectedField(`tools.${index}.${type}`, 'an object with a name')
  })

/** Which tools may or must be called; `any` is Mistral's word for `required`. */
export const toolChoiceSchema = z.union(
  [z.enum(['none', 'auto', 'required', 'any']), object],
  'none, auto, required or a tool',
)

type ToolChoice = string | JsonObject

/**
 * What a client's tools come to, with its choice among them.
 *
 * @param isParallel - whether an answer may have several calls
 * @throws `invalid_request` where there is no tool such as the client chooses
 */
export function offerTools(
  functions: readonly ClientFunction[],
  wish: ToolChoice = 'auto',
  isParallel?: boolean,
) {
  const { offered, choice } = allowedTools(wish, functions)
  const tools = choice === 'none' ? [] : offered.map(toTool)
  const strict = choice === 'auto' ? offered.filter((tool) => tool.strict === true) : []
  return {
    tools,
    /** The names of strict tools, without forced ones: `tool_choice` constrains these already. */
    strict: strict.map(({ name }) => name),
    /** By what the model calls them: calls of free-form tools have a text, those of namespaces two names. */
    byName: new Map(offered.map((tool) => [tool.name, tool])),
    forced: forcedBy(choice, tools, isParallel),
  }
}

/** What a choice leaves of the functions: `allowed_tools` names some of them. */
function allowedTools(choice: ToolChoice, offered: readonly ClientFunction[]) {
  if (typeof choice !== 'object' || choice['type'] !== 'allowed_tools') return { offered, choice }
  // chats have them in a member of their own
  const inner = choice['allowed_tools']
  const given = isObject(inner) ? inner : choice
  const tools: readonly unknown[] = Array.isArray(given['tools']) ? given['tools'] : []
  const names = tools.map((tool) => nameOf(isObject(tool) ? tool : {}))
  const mode = given['mode'] === 'required' ? 'required' : 'auto'
  return { offered: offered.filter(({ name }) => names.includes(name)), choice: mode }
}

/**
 * The tools that `tool_choice` asks for: a call of one of them, and nothing else; undefined: a call may
 * come or not.
 *
 * @throws `invalid_request` where there is no such tool
 */
function forcedBy(
  choice: ToolChoice,
  tools: readonly ToolDefinition[],
  several: boolean | undefined,
): ForcedTools | undefined {
  if (choice === 'none' || choice === 'auto') return undefined
  const name = typeof choice === 'string' ? undefined : (nameOf(choice) ?? '')
  return forcedTools(tools, 'none, auto, required or one of the tools', { name, several })
}

/** Chats name a tool inside `function` or `custom`, responses beside `type`. */
function nameOf(choice: JsonObject): unknown {
  const inner = choice['function'] ?? choice['custom']
  return isObject(inner) ? inner['name'] : choice['name']
}
