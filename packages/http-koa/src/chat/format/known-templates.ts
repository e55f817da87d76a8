import { createHash } from 'node:crypto'
import {
  CllmError,
  type ChatMessage,
  type EngineClient,
  type EngineInfo,
  entryOf,
  setLatest,
} from '@cllm/core'
import { anyText, type ChatFormat, marksOf } from './chat-format.js'
import { learnChatFormat } from './learn-chat-format.js'
import { probeTools, type RenderProbe } from './probe.js'

/** The end of a prompt: whether it opens the reasoning, and the text that closes unwanted reasoning. */
export interface PromptEnd {
  readonly thinkingIsOpen: boolean
  readonly suffix?: string
}

/** What was learned from a template. */
interface KnownTemplate {
  readonly format: ChatFormat
  /** All marks that the model may write around text, reasoning and calls. */
  readonly marks: readonly string[] | undefined
  /** The ends of its prompts, by the hash of the template's variables. */
  readonly ends: Map<string, Promise<PromptEnd>>
}

/** The known templates, by their text, or by the model where that is unknown. */
const known = new Map<unknown, Promise<KnownTemplate>>()
/** The most templates that are remembered. */
const mostTemplates = 64
/** The most sets of variables that are remembered for a template, as clients may send any. */
const mostEnds = 256

/**
 * The answer format of the model that an engine serves, learned once from its chat template.
 *
 * @throws what the engine throws when it cannot be reached
 */
export const chatFormatOf = async (client: EngineClient): Promise<ChatFormat> =>
  (await knownTemplate(client, await client.info())).format

/**
 * How the model's template, with these variables, ends a prompt. Only rendered the first time. Which tools there are
 * makes no difference, so that a new list of tools renders nothing.
 *
 * @throws what the engine throws when it cannot be reached
 */
export async function promptEndOf(
  client: EngineClient,
  { format, ends }: KnownTemplate,
  variables: Readonly<Record<string, unknown>>,
): Promise<PromptEnd> {
  const { tools } = variables
  const hasTools = Array.isArray(tools) && tools.length > 0
  const asked = { ...variables, ...(hasTools && { tools: probeTools }) }
  const key = createHash('sha256').update(JSON.stringify(asked)).digest('base64')
  return await remembered(ends, key, mostEnds, () => promptEnd(client, format, asked))
}

/**
 * What was learned from the template of an engine's model.
 *
 * @throws what the engine throws when it cannot be reached
 */
export async function knownTemplate(client: EngineClient, { model }: EngineInfo) {
  const { chatTemplate: source = '' } = model.details ?? {}
  return await remembered(known, source || model, mostTemplates, async () => {
    const format = await learnChatFormat(source, probeOf(client))
    return { format, marks: marksOf(format), ends: new Map<string, Promise<PromptEnd>>() }
  })
}

/** The result of the promise under this key; a failed one is made again. */
async function remembered<Key, T>(
  all: Map<Key, Promise<T>>,
  key: Key,
  most: number,
  make: () => Promise<T>,
): Promise<T> {
  const there = all.get(key)
  if (there !== undefined) {
    return await there.catch(async (error: unknown) => {
      // another request made it, whose client has left
      if (CllmError.from(error).code === 'cancelled') return await remembered(all, key, most, make)
      throw error
    })
  }
  const made = make()
  setLatest(all, key, made, most)
  made.catch(() => all.delete(key))
  return await made
}

/** Renders conversations for learning. A template's refusal is a result, too; a failed engine is an error. */
const probeOf =
  (client: EngineClient): RenderProbe =>
  async (messages, options) => {
    try {
      return (await client.applyTemplate(messages, options)).text
    } catch (error) {
      if ((error as { code?: unknown }).code === 'invalid_request') return undefined
      throw error
    }
  }

const hello: readonly ChatMessage[] = [{ role: 'user', content: 'Hello' }]

/**
 * How the template, with these variables, ends a prompt. If a client wants no reasoning and the template cannot leave it
 * out, the prompt gets an empty one.
 */
export async function promptEnd(
  client: EngineClient,
  { thinking }: Pick<ChatFormat, 'thinking'>,
  variables: Readonly<Record<string, unknown>>,
): Promise<PromptEnd> {
  if (thinking === undefined) return { thinkingIsOpen: false }
  const { open, close } = thinking
  const rendered = async (more: object) =>
    (await client.applyTemplate(hello, { variables: { ...variables, ...more } })).text
  const text = await rendered({})
  const isOpen = text.trimEnd().endsWith(open)
  // channels are part of each answer
  if (variables['enable_thinking'] !== false || /channel/.test(open)) {
    return { thinkingIsOpen: isOpen }
  }
  if (isOpen) return { thinkingIsOpen: false, suffix: close }
  const isClosed = text.trimEnd().endsWith(close)
  const isSame = !isClosed && text === (await rendered({ enable_thinking: true, thinking: true }))
  return { thinkingIsOpen: false, ...(isSame ? { suffix: open + close } : {}) }
}

/** By model and text: whether the text is tokenized without control tokens. */
const texts = new WeakMap<EngineInfo['model'], Map<string, Promise<boolean>>>()
const mostTexts = 256

/** Whether a model writes these marks as plain text; grammars cannot match control tokens. */
export async function areText(client: EngineClient, ...marks: readonly string[]): Promise<boolean> {
  const { model } = await client.info()
  const known = entryOf(texts, model, () => new Map())
  const parts = marks.flatMap((mark) => mark.split(anyText)).map((part) => part.trim())
  const shown = await Promise.all(
    parts
      .filter((part) => part !== '')
      .map((part) => remembered(known, part, mostTexts, () => isText(client, part))),
  )
  return shown.every(Boolean)
}

async function isText(client: EngineClient, mark: string): Promise<boolean> {
  const shown = await client.detokenize(await client.tokenize(mark, { addBos: false }))
  return shown.trim() === mark
}
