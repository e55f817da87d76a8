import { bareCalls, commonCalls, harmonyFormat, isHarmony } from './known-formats.js'
import type { CallFormat, ChatFormat, ThinkingFormat } from './chat-format.js'
import { learnCalls } from './learn-calls.js'
import { learnThinking } from './learn-thinking.js'
import { learnTurn, type Turn } from './learn-turn.js'
import type { RenderProbe } from './probe.js'
import { hasTag, isTag, segmentsOf, withoutStart } from './segments.js'

/**
 * Learns from a chat template how its model writes calls of tools and reasoning, by rendering
 * conversations and comparing them.
 *
 * @param source - the template; of its text only what no conversation shows is looked for
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

/** The template's own way, and those that models fall back to. */
const allCalls = (own: CallFormat | undefined): readonly CallFormat[] =>
  own === undefined ? [...commonCalls, ...bareCalls] : [own, ...commonCalls, ...bareCalls]

/** What stands around the text of an answer, without the reasoning and without the turn's end. */
function frameOf(
  { before, after, prompt }: Turn,
  thinking: ThinkingFormat | undefined,
  call: CallFormat | undefined,
): ChatFormat['frame'] {
  const open = withoutMark(withoutMark(before.trim(), thinking?.open), thinking?.close)
  const isOwn = (piece: string) => isTag(piece) && !piece.startsWith('`') && !/think/i.test(piece)
  const closings = hasTag(open) ? segmentsOf(after).filter(isOwn) : []
  // what opens a turn in the prompt may come again before each of its parts
  const again = (call?.closings ?? []).filter(
    (mark) => mark.length > 2 && !hasTag(mark) && prompt.endsWith(mark),
  )
  return { open, closings: [...closings, ...again] }
}

const withoutMark = (text: string, mark = ''): string => withoutStart(text, mark).trimStart()

/** Some templates show an empty reasoning before each call. */
function withoutThinking(call: CallFormat, thinking: ChatFormat['thinking']): CallFormat {
  const empty = `${thinking?.open ?? ''}${thinking?.close ?? ''}`
  if (empty === '') return call
  return {
    ...call,
    section: withoutStart(call.section, empty).trimStart(),
    head: withoutStart(call.head, empty).trimStart(),
  }
}
