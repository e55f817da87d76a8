import type { Output } from '../command.js'
import type { AnswerEnd, AnswerPart } from './chat-stream.js'
import type { Conversation } from './conversation.js'

const dim = '\u001B[2m'
const plain = '\u001B[22m'

/** How an answer is shown. */
export interface PrintOptions {
  /** Whether to show the model's reasoning, dimmed. */
  readonly showThinking: boolean
  readonly output: Output
  /** Where it goes that an answer was cut off, and with `verbose` how fast it was. */
  readonly notes: Output
}

/** Asks, writes the answer while it arrives, and after it what its reader should know. */
export async function printAnswer(
  conversation: Conversation,
  question: string,
  signal: AbortSignal,
  { output, notes, showThinking }: PrintOptions,
): Promise<void> {
  const printer = new AnswerPrinter(output, showThinking)
  const asked = performance.now()
  let first: number | undefined
  for await (const part of conversation.ask(question, signal)) {
    const now = performance.now()
    if (part.type !== 'end') {
      first ??= now
      printer.show(part)
      continue
    }
    printer.end()
    const { reason, usage } = part
    if (reason === 'length') notes.write(`\n(cut off after ${usage.completion_tokens} tokens)\n`)
    if (!conversation.settings.verbose) continue
    notes.write(`\n${figuresOf(part, (first ?? now) - asked, now - asked)}`)
  }
  printer.end()
}

/** Writes an answer while it arrives. */
export class AnswerPrinter {
  #shown: 'nothing' | 'thinking' | 'text' = 'nothing'
  #last = '\n'

  constructor(
    private readonly output: Output,
    private readonly showThinking: boolean,
  ) {}

  /** Writes a piece of the answer. */
  show(part: AnswerPart): void {
    if (part.type === 'thinking') this.#thinking(part.text)
    else if (part.type === 'text') this.#text(part.text)
  }

  /** Ends the line, also of an answer that was stopped. */
  end(): void {
    this.#leaveThinking()
    if (this.#last !== '\n') this.output.write('\n')
    this.#last = '\n'
  }

  #thinking(text: string): void {
    if (!this.showThinking) return
    const { isTTY } = this.output
    if (this.#shown !== 'thinking' && isTTY === true && text.trim() !== '') this.output.write(dim)
    this.#write('thinking', text)
  }

  #text(text: string): void {
    if (this.#shown === 'thinking') {
      this.#leaveThinking()
      this.output.write(this.#last === '\n' ? '\n' : '\n\n')
      this.#last = '\n'
    }
    this.#write('text', text)
  }

  #leaveThinking(): void {
    if (this.#shown !== 'thinking') return
    if (this.output.isTTY === true) this.output.write(plain)
    this.#shown = 'nothing'
  }

  /** Answers and reasoning often begin with line breaks, which only take room. */
  #write(kind: 'thinking' | 'text', text: string): void {
    const shown = this.#shown === kind ? text : text.trimStart()
    if (shown === '') return
    this.#shown = kind
    this.output.write(shown)
    this.#last = shown.at(-1)!
  }
}

/** The figures of an answer; times in milliseconds. */
function figuresOf({ usage, timings }: AnswerEnd, firstMs: number, totalMs: number): string {
  const { prompt_tokens: promptTokens, completion_tokens: tokens } = usage
  const cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0
  const { prompt_ms: promptMs = 0, predicted_ms: answerMs = 0 } = timings ?? {}
  const rate = (count: number, ms: number) => (ms > 0 ? ((count * 1000) / ms).toFixed(1) : '–')
  const seconds = (ms: number) => (ms / 1000).toFixed(2)
  const computed = promptTokens - cachedTokens
  return `first token  ${seconds(firstMs)} s, whole answer ${seconds(totalMs)} s
prompt       ${promptTokens} tokens, ${cachedTokens} of them cached, ${rate(computed, promptMs)} tokens/s
answer       ${tokens} tokens, ${rate(tokens - 1, answerMs)} tokens/s
`
}
