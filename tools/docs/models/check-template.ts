import type { JinjaTemplate } from '@cllm/backend-llamacpp'
import {
  type ChatFormat,
  createAnswerParser,
  learnChatFormat,
  type RenderProbe,
  strictCalls,
} from '@cllm/http-koa/protocol'
import { answerOf, calls, type ProbeAnswer, renderWith, tools, words } from './probe-answers.js'

/** What works with a template; undefined: the template shows no such thing. */
export interface TemplateCheck {
  readonly renders: boolean
  /** The mark with which reasoning begins, if that is known. */
  readonly thinking: string | undefined
  /** Whether reasoning that the template shows is told from the answer. */
  readonly splitsThinking: boolean | undefined
  readonly call: boolean | undefined
  readonly severalCalls: boolean | undefined
  /** Whether a grammar holds calls of strict tools to their schemas from their mark on. */
  readonly isHeld: boolean | undefined
  /** Whether arguments come while they are written. */
  readonly streams: boolean | undefined
  /** What becomes of a message of the system in the middle of a conversation. */
  readonly laterSystem: 'in place' | 'moved' | 'left out' | 'refused'
}

/** Reads what a template shows of calls and reasoning, whole and letter by letter. */
export async function checkTemplate(
  source: string,
  compile: (source: string) => JinjaTemplate,
): Promise<TemplateCheck> {
  const nothing = {
    splitsThinking: undefined,
    call: undefined,
    severalCalls: undefined,
    isHeld: undefined,
    laterSystem: 'refused',
  } as const
  let template: JinjaTemplate
  try {
    template = compile(source)
  } catch {
    return { renders: false, thinking: undefined, streams: undefined, ...nothing }
  }
  const render: RenderProbe = async (messages, options = {}) =>
    renderWith(template, messages, options.variables ?? {}, options.addGenerationPrompt ?? true)
  const format = await learnChatFormat(source, render)
  const [user] = [{ role: 'user', content: words.user }]
  const one = callsOf(template, format, 1)
  const two = callsOf(template, format, 2)
  return {
    renders: renderWith(template, [user], { tools }, true) !== undefined,
    thinking: format.thinking?.open,
    splitsThinking: thoughtOf(template, format),
    call: one?.isRight,
    severalCalls: two?.isRight,
    isHeld: one?.isHeld,
    streams: one?.isRight === true ? one.streams : undefined,
    laterSystem: laterSystem(template),
  }
}

function laterSystem(template: JinjaTemplate): TemplateCheck['laterSystem'] {
  const said = ['Be brief.', 'First question', 'First answer', 'Now be exact.', 'Second question']
  const roles = ['system', 'user', 'assistant', 'system', 'user']
  const messages = roles.map((role, index) => ({ role, content: said[index] }))
  const text = renderWith(template, messages, {}, true)
  if (text === undefined) return 'refused'
  const [, , before = 0, at = 0, after = 0] = said.map((content) => text.indexOf(content))
  if (at === -1) return 'left out'
  return before < at && at < after ? 'in place' : 'moved'
}

interface Calls {
  readonly isRight: boolean
  readonly streams: boolean
  readonly isHeld: boolean
}

/** Some templates take arguments as objects only, others as text only. */
function callsOf(template: JinjaTemplate, format: ChatFormat, count: number): Calls | undefined {
  const expected = calls.slice(0, count)
  let known: Calls | undefined
  for (const asText of [false, true]) {
    const tool_calls = expected.map(({ name, arguments: given }, index) => ({
      id: `call0000${index}`,
      type: 'function',
      function: { name, arguments: asText ? JSON.stringify(given) : given },
    }))
    const answer = answerOf(template, format, { content: '', tool_calls })
    if (answer === undefined || !expected.every(({ name }) => answer.text.includes(name))) continue
    const read = [1e9, 1, 3].flatMap((size) => [
      readAnswer(format, answer, size, false),
      readAnswer(format, answer, size, true),
    ])
    const isRight = read.every(
      (parts) =>
        JSON.stringify(parts.calls) === JSON.stringify(expected) && !/Paulo/.test(parts.text),
    )
    known = {
      isRight,
      streams: read[3]!.pieces > 2 * count,
      isHeld: isHeld(format, answer),
    }
    if (isRight) return known
  }
  return known
}

/** Whether the mark of a call that is shown starts the grammar. */
function isHeld(format: ChatFormat, { text, thinkingIsOpen }: ProbeAnswer): boolean {
  const names = tools.map((tool) => tool.function.name)
  const thinks = format.thinking !== undefined
  const { constraint } = strictCalls(tools, names, { tools, format, thinks, thinkingIsOpen })
  if (constraint.type !== 'triggered-json') return false
  const close = format.thinking?.close ?? ''
  const isThinking = thinkingIsOpen && !text.includes(close)
  return new RegExp(constraint.trigger).test(isThinking ? close + text : text)
}

function thoughtOf(template: JinjaTemplate, format: ChatFormat): boolean | undefined {
  for (const field of ['reasoning_content', 'thinking', 'reasoning']) {
    const answer = answerOf(template, format, { content: words.content, [field]: words.reasoning })
    if (answer?.text.includes(words.reasoning) !== true) continue
    return [1e9, 1].every((size) => {
      const { reasoning, text } = readAnswer(format, answer, size, false)
      return reasoning === words.reasoning && text.trim().startsWith(words.content)
    })
  }
  return undefined
}

interface ReadAnswer {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[]
  /** In how many pieces the arguments came. */
  readonly pieces: number
}

function readAnswer(
  format: ChatFormat,
  { text, thinkingIsOpen }: ProbeAnswer,
  size: number,
  streams: boolean,
): ReadAnswer {
  const thinks = format.thinking !== undefined
  const parser = createAnswerParser({ tools, format, thinks, thinkingIsOpen }, streams)
  const read = { text: '', reasoning: '', pieces: 0 }
  const found: { name: string; json: string }[] = []
  const take = (parts: ReturnType<typeof parser.push>) => {
    for (const part of parts) {
      if (part.type === 'call') found.push({ name: part.call.name, json: part.call.arguments })
      else if (part.type === 'arguments') {
        found.at(-1)!.json += part.text
        read.pieces++
      } else read[part.type] += part.text
    }
  }
  for (let at = 0; at < text.length; at += size) take(parser.push(text.slice(at, at + size)))
  take(parser.end())
  return { ...read, calls: found.map(({ name, json }) => ({ name, arguments: parsed(json) })) }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json) as unknown
  } catch {
    return json
  }
}
