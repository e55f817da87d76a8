import { bareCalls, commonCalls, harmonyFormat, isHarmony } from './known-formats.js'
import type { CallFormat, ChatFormat, ThinkingFormat } from './chat-format.js'
import { hasTag, isTag, segmentsOf, withoutEnd, withoutStart } from './chat-format.js'
import { learnCalls } from './learn-calls.js'
import { learnTurn, type Turn, type RenderProbe, probe, probeCalls, probeStyles } from './probe.js'
import type { ChatMessage } from '@cllm/core'

/**
 * Learns from a chat template how its model writes tool calls and reasoning, by rendering conversations and comparing
 * the results.
 *
 * @param source - the template's text, which is only searched for what no rendered conversation shows
 */
export async function learnChatFormat(source: string, render: RenderProbe): Promise<ChatFormat> {
  if (isHarmony(source)) return harmonyFormat
  const turn = await learnTurn(render)
  const own = turn && (await learnCalls(turn))
  const thinking = turn && (await learnThinking(turn, source))
  const call = own && withoutThinking(own, thinking)
  return {
    showsTools: /\btools\b/.test(source),
    own: call,
    calls: allCalls(call),
    thinking,
    frame: turn === undefined ? { open: '', closings: [] } : frameOf(turn, thinking, own),
    shortIds: source.includes('[TOOL_CALLS]'),
  }
}

/** The template's own format of calls, and the formats that models fall back to. */
const allCalls = (own: CallFormat | undefined): readonly CallFormat[] =>
  own === undefined ? [...commonCalls, ...bareCalls] : [own, ...commonCalls, ...bareCalls]

/** The marks around the text of an answer, without the reasoning and the turn's end. */
function frameOf(
  { before, after, prompt }: Turn,
  thinking: ThinkingFormat | undefined,
  call: CallFormat | undefined,
): ChatFormat['frame'] {
  const open = withoutMark(withoutMark(before.trim(), thinking?.open), thinking?.close)
  const isOwn = (piece: string) => isTag(piece) && !piece.startsWith('`') && !/think/i.test(piece)
  const closings = hasTag(open) ? segmentsOf(after).filter(isOwn) : []
  // the opening of a turn may be repeated before each of its parts
  const again = (call?.closings ?? []).filter(
    (mark) => mark.length > 2 && !hasTag(mark) && prompt.endsWith(mark),
  )
  return { open, closings: [...closings, ...again] }
}

const withoutMark = (text: string, mark = ''): string => withoutStart(text, mark).trimStart()

/** The format of calls without the empty reasoning that some templates render before each call. */
function withoutThinking(call: CallFormat, thinking: ChatFormat['thinking']): CallFormat {
  const empty = `${thinking?.open ?? ''}${thinking?.close ?? ''}`
  if (empty === '') return call
  return {
    ...call,
    section: withoutStart(call.section, empty).trimStart(),
    head: withoutStart(call.head, empty).trimStart(),
  }
}

/** The names under which templates look for reasoning. */
const fields = ['reasoning_content', 'thinking', 'reasoning', 'thinking_content'] as const
/** Variables with which templates turn reasoning on, or keep earlier reasoning. */
const wishes = [
  {},
  { enable_thinking: true, thinking: true, preserve_thinking: true, keep_reasoning: true },
]

/** Closing marks that are only found in a template's text: `</think>`, `</seed:think>`, `[/THINK]` … */
const closings: readonly RegExp[] = [
  /\[BEGIN FINAL RESPONSE\]/,
  /<\/([\w:.-]*(?:think|thought|reason)[\w:.-]*)>/,
  /\[\/(THINK|REASONING)\]/,
  /<\|END_(THINKING)\|>/,
  /<([\w:.-]*think[\w:.-]*)>/,
  /<\|channel\|?>(?:analysis|thought)/,
]

/** The format of reasoning; undefined if the template has none. */
async function learnThinking(turn: Turn, source: string): Promise<ThinkingFormat | undefined> {
  const calls = probeCalls(1, probeStyles[0]!)
  for (const content of [probe.content, '']) {
    for (const variables of wishes) {
      for (const field of fields) {
        const message = {
          content,
          [field]: probe.reasoning,
          ...(content === '' ? { tool_calls: calls } : {}),
        } as unknown as Omit<ChatMessage, 'role'>
        const shown = await turn.shown(message, variables)
        const found = shown === undefined ? undefined : between(shown, turn, content)
        if (found !== undefined) return found
      }
    }
  }
  return thinkingInSource(source)
}

function between(shown: string, turn: Turn, content: string): ThinkingFormat | undefined {
  const at = shown.indexOf(probe.reasoning)
  if (at < 0) return undefined
  const open = shown.slice(0, at)
  const rest = shown.slice(at + probe.reasoning.length)
  const end = content === '' ? firstTags(rest) : rest.slice(0, Math.max(0, rest.indexOf(content)))
  const close = closeOf(end, open, turn)
  if (close.trim() === '' || !(hasTag(close) || /\w/.test(close))) return undefined
  // without a mark before the reasoning, only the prompt's end tells that an answer begins with it
  const tail = withoutStart(turn.prompt, turn.header)
  return { open: open.trim() === '' ? tail.trim() : open.trim(), close: close.trim() }
}

/** The mark that ends the reasoning, without the beginning of the answer's frame. */
function closeOf(end: string, open: string, { before }: Turn): string {
  const frame = before.startsWith(open) ? '' : before
  const close = hasTag(frame) ? withoutEnd(end, frame) : end
  // some templates write several channels, of which the next begins like the reasoning
  const [first = ''] = segmentsOf(open.trimStart())
  const again = first.startsWith('<|') ? close.indexOf(first.replace(/>\w.*$/, '>')) : -1
  return again > 0 ? close.slice(0, again) : close
}

/** The first tag behind the reasoning of a call, with the white space around it. */
function firstTags(rest: string): string {
  const pieces = segmentsOf(rest)
  const first = pieces.findIndex((piece) => piece.trim() !== '')
  return pieces.slice(0, first + 1).join('')
}

/** The format of reasoning, as far as the template's text tells. */
export function thinkingInSource(source: string): ThinkingFormat | undefined {
  for (const pattern of closings) {
    const [close, name = ''] = pattern.exec(source) ?? []
    if (close === undefined) continue
    if (close === '[BEGIN FINAL RESPONSE]') return { open: 'Here are my reasoning steps:', close }
    if (close.startsWith('<|channel')) return harmonyFormat.thinking
    if (close === `<${name}>`) return { open: close, close: `</${name}>` }
    if (close.startsWith('</')) return { open: `<${name}>`, close }
    if (close.startsWith('[')) return { open: `[${name}]`, close }
    return { open: close.replace('END', 'START'), close }
  }
  return undefined
}
