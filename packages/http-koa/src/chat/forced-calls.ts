import type { EngineClient, OutputConstraint, Prompt } from '@cllm/core'
import type { AnswerForm } from './answer/create-answer-parser.js'
import { escaped, fewSpaces, thoughtsEnd } from './strict-calls.js'
import type { ToolDefinition } from './tool-prompt.js'
import { areText, writtenCalls } from './written-calls.js'

/** What a forced call needs. */
export interface ForcedCalls {
  readonly prompt: Prompt
  readonly form: AnswerForm
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
  { prompt, form }: Pick<ForcedCalls, 'prompt' | 'form'>,
  tools: readonly ToolDefinition[],
  several?: boolean,
): Promise<ForcedCalls> {
  const { json, form: read, isOwn } = await writtenCalls(client, form, tools, several)
  const called = { ...read, forced: tools.map((tool) => tool.function.name) }
  const held = { type: 'json-schema', ...json } as const
  const end = thoughtsEnd(form)
  if (end !== undefined) {
    const constraint = { ...held, type: 'triggered-json', trigger: end } as const
    return { prompt, form: called, constraint, afterThinking: held }
  }
  const template = 'messages' in prompt ? prompt.template : undefined
  const { enable_thinking: wish = true } = template?.variables ?? {}
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
  const constraint = { ...held, before: `${thoughts}${json.before ?? ''}` }
  return { prompt, form: called, constraint, afterThinking: held }
}

/** Any text in which nothing begins as the mark does. */
function upTo(mark: string): string {
  const [first = '', second = ''] = Array.from(mark, escapedInClass)
  return second === '' ? `[^${first}]*` : `(?:[^${first}]|[${first}][^${second}])*`
}

const escapedInClass = (sign: string): string => (/[\\\]^-]/.test(sign) ? `\\${sign}` : sign)
