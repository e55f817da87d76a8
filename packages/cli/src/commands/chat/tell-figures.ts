import type { Output } from '../command-io.js'
import type { AnswerEnd, AnswerPart } from './chat-stream.js'
import type { Conversation } from './conversation.js'

/**
 * Follows an answer, and writes after it what its reader should know: that it was cut off, and with
 * `verbose` how fast it was.
 */
export function tellFigures(
  { settings }: Conversation,
  output: Output,
): (part: AnswerPart) => void {
  const asked = performance.now()
  let first: number | undefined
  return (part) => {
    const now = performance.now()
    if (part.type !== 'end') {
      first ??= now
      return
    }
    if (part.reason === 'length') output.write(`\n(cut off after ${part.tokens} tokens)\n`)
    if (settings.verbose) output.write(`\n${figuresOf(part, (first ?? now) - asked, now - asked)}`)
  }
}

/** The figures of an answer; times in milliseconds. */
function figuresOf(end: AnswerEnd, firstMs: number, totalMs: number): string {
  const { promptTokens, cachedTokens, tokens, promptMs, answerMs } = end
  const rate = (count: number, ms: number) => (ms > 0 ? ((count * 1000) / ms).toFixed(1) : '–')
  const seconds = (ms: number) => (ms / 1000).toFixed(2)
  const computed = promptTokens - cachedTokens
  return `first token  ${seconds(firstMs)} s, whole answer ${seconds(totalMs)} s
prompt       ${promptTokens} tokens, ${cachedTokens} of them kept, ${rate(computed, promptMs)} tokens/s
answer       ${tokens} tokens, ${rate(tokens - 1, answerMs)} tokens/s
`
}
