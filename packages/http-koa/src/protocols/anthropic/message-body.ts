import { requestId } from '@cllm/host'
import type { Usage } from '@cllm/core'
import type { CollectedAnswer } from '../../chat/answer/create-answer-parser.js'
import { parsedJson } from '../../fields/fields.js'
import type { EndEvent } from '../../request/generation.js'
import type { Call } from '../../routes/route.js'

/** What a message of the assistant has before anything is generated, with the id of its request. */
export const messageHead = (id: string, model: string): object => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  model,
  container: null,
  diagnostics: null,
})

/** The kinds of blocks in an answer. */
export type BlockKind = 'text' | 'thinking' | 'tool_use'

/** An empty block of a kind; a call has its name. */
export function newBlock(call: Call, kind: BlockKind, name = ''): object {
  // without `citations`: some clients take a list alone
  if (kind === 'text') return { type: 'text', text: '' }
  // Nothing is signed: only this server reads what it has thought.
  if (kind === 'thinking') return { type: 'thinking', thinking: '', signature: '' }
  const caller = { type: 'direct' }
  return { type: 'tool_use', id: `toolu_${requestId(call.random)}`, name, input: {}, caller }
}

/** The content of a whole answer. */
export function contentOf(
  call: Call,
  { content, reasoning, calls }: CollectedAnswer,
): readonly object[] {
  const thinking = { ...newBlock(call, 'thinking'), thinking: reasoning }
  const text = { ...newBlock(call, 'text'), text: content }
  return [
    ...(reasoning === '' ? [] : [thinking]),
    ...(content === '' && calls.length > 0 ? [] : [text]),
    ...calls.map(({ name, arguments: given }) => ({
      ...newBlock(call, 'tool_use', name),
      // an answer that was cut off may end within its arguments
      input: parsedJson(given) ?? {},
    })),
  ]
}

/** Anthropic's words for the end of an answer. */
export function stopOf({ reason, stop }: Pick<EndEvent, 'reason' | 'stop'>, hasCalls: boolean) {
  const stop_reason =
    reason === 'length'
      ? 'max_tokens'
      : stop !== undefined
        ? 'stop_sequence'
        : hasCalls
          ? 'tool_use'
          : 'end_turn'
  return { stop_reason, stop_sequence: stop ?? null, stop_details: null, container: null }
}

/**
 * Token counts; those of the input are apart from what was in the cache, and what is kept there from now on.
 *
 * @param thinking - this many of the answer's tokens are thoughts
 * @param kept - this many of the prompt's first tokens are kept
 */
export function usageOf(usage: Usage, thinking: number, kept = 0) {
  const { promptTokens, cachedTokens, generatedTokens } = usage
  const created = Math.max(0, Math.min(kept, promptTokens) - cachedTokens)
  return {
    input_tokens: promptTokens - cachedTokens - created,
    cache_creation_input_tokens: created,
    cache_read_input_tokens: cachedTokens,
    output_tokens: generatedTokens,
    output_tokens_details: { thinking_tokens: thinking },
  }
}
