import { dataUrlOf, isMedia, type Turn } from './conversation.js'
import type { ChatSettings } from './settings/settings.js'

/**
 * The body of `POST /v1/chat/completions`; if the last turn is an answer, the model continues it. Throws a
 * SyntaxError if the tools are no JSON.
 */
export async function chatBody(
  turns: readonly Turn[],
  settings: ChatSettings,
  mcpTools: readonly McpTool[] = [],
): Promise<object> {
  const { model, system, temperature, topP, maxTokens, seed, effort } = settings
  const number = (field: string, text: string): object =>
    text.trim() === '' ? {} : { [field]: Number(text) }
  const sent = withoutUnanswered(turns)
  const asked = sent.map(async (turn, index) => await messagesOf(turn, sent[index + 1]))
  const messages = (await Promise.all(asked)).flat()
  return {
    ...(model === '' ? {} : { model }),
    messages: system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages],
    ...number('temperature', temperature),
    ...number('top_p', topP),
    ...number('max_tokens', maxTokens),
    ...number('seed', seed),
    ...(effort === '' ? {} : { reasoning_effort: effort }),
    ...toolsOf(settings, mcpTools),
    ...(turns.at(-1)?.role === 'assistant' && goesOn),
    stream: true,
    stream_options: { include_usage: true },
  }
}

const goesOn = { continue_final_message: true, add_generation_prompt: false }

/** A tool as `GET /mcp/tools` lists it. */
export interface McpTool {
  readonly name: string
  readonly description: string
  readonly parameters: object
}

function toolsOf({ tools, toolChoice }: ChatSettings, mcpTools: readonly McpTool[]): object {
  const typed = tools.trim() === '' ? [] : (JSON.parse(tools) as object[])
  const all = [...typed, ...mcpTools.map((each) => ({ type: 'function', function: each }))]
  if (all.length === 0) return {}
  return { tools: all, ...(toolChoice !== '' && { tool_choice: toolChoice }) }
}

/**
 * The turns without earlier questions whose answer has no text, and without those answers: chat templates that
 * want users and assistants to alternate refuse two questions in a row.
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

/** A turn as messages. Tool calls without a result are left out: models expect one for each call. */
async function messagesOf(turn: Turn, next: Turn | undefined): Promise<object[]> {
  const { role, content, calls = [], results = [] } = turn
  if (role === 'tool') {
    return results.map(({ call, content }) => ({ role, tool_call_id: call, content }))
  }
  if (role === 'user') return [await questionOf(turn)]
  if (next?.role !== 'tool') return content === '' ? [] : [{ role, content }]
  const toolCalls = calls.map(({ id, name, arguments: given }) => {
    return { id, type: 'function', function: { name, arguments: given } }
  })
  return [{ role, content, tool_calls: toolCalls }]
}

/**
 * A question as a message: after its images and sounds, and the texts of its files, each in a fence that its own text
 * cannot end.
 */
export async function questionOf(turn: Pick<Turn, 'content' | 'files'>): Promise<object> {
  const { content, files = [] } = turn
  const media = files.filter(isMedia).map(async ({ type, data }) => {
    const url = await dataUrlOf(data)
    if (type === 'image') return { type: 'image_url', image_url: { url } }
    const [, format, base64] = /^data:audio\/(\w+);base64,(.*)$/.exec(url) ?? []
    const sound = { data: base64, format: format === 'mpeg' ? 'mp3' : format }
    return { type: 'input_audio', input_audio: sound }
  })
  const blocks = files.flatMap((file) => {
    if (isMedia(file)) return []
    const { name, text } = file
    let longest = 2
    for (const [ticks] of text.matchAll(/`+/g)) longest = Math.max(longest, ticks.length)
    const fence = '`'.repeat(longest + 1)
    return [`${name}:\n${fence}\n${text}\n${fence}`]
  })
  const text = [...blocks, content].join('\n\n')
  if (media.length === 0) return { role: 'user', content: text }
  return { role: 'user', content: [...(await Promise.all(media)), { type: 'text', text }] }
}
