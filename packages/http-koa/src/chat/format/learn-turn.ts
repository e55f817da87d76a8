import { dialog, probe, probeTools, type RenderProbe } from './probe.js'
import { commonStart, isTag, segmentsOf, withoutStart } from './segments.js'
import type { ChatMessage } from '@cllm/core'

/** What a template writes around the assistant's answer. */
export interface Turn {
  /** The end of the prompt, from the user's words on. */
  readonly prompt: string
  /** From the user's words to where the assistant's begin. */
  readonly header: string
  /** Between the header and an answer's text. */
  readonly before: string
  /** Behind an answer's text. */
  readonly after: string
  /** What the template shows of a message of the assistant behind the header. */
  shown(message: Omit<ChatMessage, 'role'>, variables?: object): Promise<string | undefined>
}

/** Renders an answer that is text, and what comes before it. */
export async function learnTurn(render: RenderProbe): Promise<Turn | undefined> {
  const tools = { tools: probeTools }
  const behindUser = async (
    messages: readonly ChatMessage[],
    variables: object = {},
    addGenerationPrompt = false,
  ) => {
    const text = await render(messages, {
      addGenerationPrompt,
      variables: { ...tools, ...variables },
    })
    const at = text?.indexOf(probe.user) ?? -1
    return text === undefined || at < 0 ? undefined : text.slice(at + probe.user.length)
  }
  const [user] = dialog({ content: '' })
  const prompt = await behindUser([user!], {}, true)
  const plain = await behindUser(dialog({ content: probe.content }))
  if (prompt === undefined || plain === undefined) return undefined
  const at = plain.indexOf(probe.content)
  if (at < 0) return undefined
  const header = headerOf(prompt, plain.slice(0, at))
  return {
    prompt,
    header,
    before: plain.slice(header.length, at),
    after: plain.slice(at + probe.content.length),
    shown: async (message, variables) => {
      const text = await behindUser(dialog(message), variables)
      if (text === undefined) return undefined
      return withoutStart(text, commonStart(text, header))
    },
  }
}

/** The prompt may open the reasoning, which the template leaves out of answers that have none. */
function headerOf(prompt: string, beforeContent: string): string {
  const common = commonStart(prompt, beforeContent)
  // a tag of the reasoning that both have is no part of the header
  const pieces = segmentsOf(common)
  const first = pieces.findIndex((piece) => isTag(piece) && /think|thought/i.test(piece))
  return first < 0 ? common : pieces.slice(0, first).join('')
}
