import type { Turn } from './conversation.js'
import type { ChatSettings } from './settings/settings.js'

/**
 * The body of `POST /v1/chat/completions`; where the last turn is an answer, it is gone on with. Throws a
 * SyntaxError where the tools are no JSON.
 */
export function chatBody(turns: readonly Turn[], settings: ChatSettings): object {
  const { model, system, temperature, topP, maxTokens, seed, effort } = settings
  const number = (field: string, text: string): object =>
    text.trim() === '' ? {} : { [field]: Number(text) }
  const sent = withoutUnanswered(turns)
  const messages = sent.flatMap((turn, index) => messagesOf(turn, sent[index + 1]))
  return {
    ...(model === '' ? {} : { model }),
    messages: system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages],
    ...number('temperature', temperature),
    ...number('top_p', topP),
    ...number('max_tokens', maxTokens),
    ...number('seed', seed),
    ...(effort === '' ? {} : { reasoning_effort: effort }),
    ...toolsOf(settings),
    ...(turns.at(-1)?.role === 'assistant' && goesOn),
    stream: true,
    stream_options: { include_usage: true },
  }
}

const goesOn = { continue_final_message: true, add_generation_prompt: false }

function toolsOf({ tools, toolChoice }: ChatSettings): object {
  if (tools.trim() === '') return {}
  const choice = toolChoice === '' ? {} : { tool_choice: toolChoice }
  return { tools: JSON.parse(tools) as unknown, ...choice }
}

/**
 * The turns without the earlier questions that got no text for an answer, and what came of them: models
 * whose templates want users and assistants in turns refuse two questions in a row.
 */
function withoutUnanswered(turns: readonly Turn[]): readonly Turn[] {
  const begins = turns.flatMap(({ role }, index) => (role === 'user' ? [index] : []))
  return begins.flatMap((begin, nth) => {
    const end = begins[nth + 1]
    const round = turns.slice(begin, end)
    const last = round.at(-1)
    const isAnswered = last?.role === 'assistant' && last.content !== ''
    return isAnswered || end === undefined ? round : []
  })
}

/** A turn as messages. Calls that nobody gave a result for are left out: models wait for one. */
function messagesOf(turn: Turn, next: Turn | undefined): object[] {
  const { role, content, calls = [], results = [] } = turn
  if (role === 'tool') {
    return results.map(({ call, content }) => ({ role, tool_call_id: call, content }))
  }
  if (role === 'user') return [{ role, content: withFiles(turn) }]
  if (next?.role !== 'tool') return content === '' ? [] : [{ role, content }]
  const toolCalls = calls.map(({ id, name, arguments: given }) => {
    return { id, type: 'function', function: { name, arguments: given } }
  })
  return [{ role, content, tool_calls: toolCalls }]
}

/** A question after the texts of its files, each in a fence that its own text cannot end. */
function withFiles({ content, files = [] }: Turn): string {
  const blocks = files.map(({ name, text }) => {
    const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([ticks]) => ticks.length))
    const fence = '`'.repeat(longest + 1)
    return `${name}:\n${fence}\n${text}\n${fence}`
  })
  return [...blocks, content].join('\n\n')
}
