import { z } from 'zod'
import { object, parsedJson, isObject, list, type JsonObject } from '../../fields/fields.js'
import type { Logger } from '@cllm/core'
import { type ToolDefinition, toTool } from '../../chat/format/chat-format.js'
import { type ForcedTools, forcedTools } from '../../chat/plan-answer.js'
import { expectedField } from '../../request/refusals.js'

/** The fields of every tool. OpenAI allows names of 64 characters; MCP's names, prefixed with their server's, are longer. */
const toolFields = {
  name: z.string('a name').regex(/^[\w.-]{1,256}$/, 'a name of up to 256 letters, digits, _ . -'),
  description: z.string('a string').nullish(),
}

/** A free-form tool that a client offers: its input is a text, not JSON. */
export const customSchema = z.object(
  { ...toolFields, format: object.nullish() },
  'an object with a name',
)

/** The input from the arguments of a call; if the model wrote something else, that is the input. */
export function customInput(written: string): string {
  const value = parsedJson(written)
  // truncated arguments are shown as they are
  if (typeof value !== 'object' || value === null) return written
  const [only, ...others] = Object.values(value) as unknown[]
  const input = 'input' in value ? value.input : others.length === 0 ? only : undefined
  return typeof input === 'string' ? input : written
}

const opening = /^\s*\{\s*"input"\s*:\s*"/
/** Matches the part of a JSON text that is certain: characters and complete escapes, of which two may be one character. */
const certain =
  /[^"\\]+|\\u[dD][89abAB][^]{2}(?:\\u[^]{4}|(?=[^\\]|\\[^u]))|\\u(?![dD][89abAB])[^]{4}|\\[^u]/y

/** The character of an escape; other characters as they are. */
const unescaped = (escape: string): string =>
  (parsedJson(`"${escape}"`) as string | undefined) ?? escape.slice(1)

/** Extracts the input from arguments that arrive in pieces. */
export class CustomInput {
  #written = ''
  #at: number | undefined
  #isOver = false

  /** Adds a piece; returns the part of the input that is certain now. */
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

  /** Returns the part that was uncertain until the end. */
  end(): string {
    if (this.#at !== undefined || this.#written.length === 0) return ''
    return customInput(this.#written)
  }
}

/** The fields of a function, the same in chats and responses. */
export const functionFields = {
  ...toolFields,
  parameters: object.nullish(),
  strict: z.boolean('true or false').nullish(),
}

const functionSchema = z.object(functionFields, 'an object with a name')

/** A function that a client offers. */
export type ClientFunction = z.output<typeof functionSchema> & {
  /** Whether it represents a free-form tool. */
  readonly isCustom?: boolean
  /** The name in calls, if it differs. */
  readonly called?: { readonly name: string; readonly namespace?: string }
}

/** The functions that a client offers, by the name that the model uses. */
export type FunctionsByName = ReadonlyMap<string, ClientFunction>

/** The name of a function for models, including its namespace. */
export const joinedName = (name: string, namespace?: string | null): string =>
  typeof namespace === 'string' ? `${namespace}__${name}` : name

/**
 * A free-form tool as a function with a text as its only argument, which models know. A grammar for its input is shown to
 * the model but not enforced, which is logged.
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

/** The grammar of a free-form tool: in its own member in chats, beside the type in responses. */
function grammarOf(format: JsonObject) {
  const { syntax, definition } = (format['grammar'] ?? format) as JsonObject
  return {
    syntax: typeof syntax === 'string' ? syntax.slice(0, 40) : '',
    definition: typeof definition === 'string' ? definition : '',
  }
}

/** The tools of a chat: functions and free-form tools. Others are ignored. */
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
 * The functions and free-form tools among the tools of a client. Tools that this server does not have (such as searches)
 * are ignored and logged, so that the model answers without them.
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
 * The functions and free-form tools of a chat, where each is in its own member.
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

/** Which tools may or must be called; `any` is Mistral's name for `required`. */
export const toolChoiceSchema = z.union(
  [z.enum(['none', 'auto', 'required', 'any']), object],
  'none, auto, required or a tool',
)

type ToolChoice = string | JsonObject

/**
 * The tools that a client offers, restricted by its choice.
 *
 * @param isParallel - whether an answer may have several calls
 * @throws `invalid_request` if the chosen tool does not exist
 */
export function offerTools(
  functions: readonly ClientFunction[],
  wish: ToolChoice = 'auto',
  isParallel?: boolean,
) {
  const { offered, choice } = allowedTools(wish, functions)
  const tools = offered.map(toTool)
  const strict = choice === 'auto' ? offered.filter((tool) => tool.strict === true) : []
  return {
    tools,
    /** Whether calls are allowed. */
    mayCall: choice !== 'none',
    /** The names of strict tools, without forced ones, which `tool_choice` constrains already. */
    strict: strict.map(({ name }) => name),
    /** The functions by the name that the model uses. */
    byName: new Map(offered.map((tool) => [tool.name, tool])),
    forced: forcedBy(choice, tools, isParallel),
  }
}

/** The functions that a choice allows: all, or those that `allowed_tools` names. */
function allowedTools(choice: ToolChoice, offered: readonly ClientFunction[]) {
  if (typeof choice !== 'object' || choice['type'] !== 'allowed_tools') return { offered, choice }
  // in chats they are in their own member
  const inner = choice['allowed_tools']
  const given = isObject(inner) ? inner : choice
  const tools: readonly unknown[] = Array.isArray(given['tools']) ? given['tools'] : []
  const names = tools.map((tool) => nameOf(isObject(tool) ? tool : {}))
  const mode = given['mode'] === 'required' ? 'required' : 'auto'
  return { offered: offered.filter(({ name }) => names.includes(name)), choice: mode }
}

/**
 * The tools of which `tool_choice` requires a call; undefined: calls are optional.
 *
 * @throws `invalid_request` if there is no such tool
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

/** The name of the chosen tool: inside `function` or `custom` in chats, beside `type` in responses. */
function nameOf(choice: JsonObject): unknown {
  const inner = choice['function'] ?? choice['custom']
  return isObject(inner) ? inner['name'] : choice['name']
}
