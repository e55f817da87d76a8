import type { Output } from '../command.js'
import type { AnswerEnd, AnswerPart } from './chat-stream.js'
import type { Conversation } from './conversation.js'

/** How an answer is shown. */
export interface PrintOptions {
  /** Whether to show the model's reasoning, dimmed. */
  readonly showThinking: boolean
  readonly stdout: Output
  /** Where notes go: that an answer was cut off, and with `verbose` its speed. */
  readonly notes: Output
  readonly env: NodeJS.ProcessEnv
}

/** Asks, writes the answer while it arrives, and then notes for its reader. */
export async function printAnswer(
  conversation: Conversation,
  question: string,
  signal: AbortSignal,
  { stdout: output, notes, showThinking, env }: PrintOptions,
): Promise<void> {
  const printer = new AnswerPrinter(output, showThinking, env)
  const asked = performance.now()
  let first: number | undefined
  try {
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
  } finally {
    printer.end()
  }
}

const [bold, dim, cyan] = ['1', '2', '36']

/** A text in these styles of a terminal. */
const styled = (text: string, ...styles: readonly string[]): string => {
  const codes = styles.filter(Boolean).join(';')
  return codes === '' ? text : `\u001B[${codes}m${text}\u001B[0m`
}

/**
 * Writes an answer while it arrives. In a terminal that may have colours, headings and bold words of Markdown are bold
 * and code is coloured; Markdown's signs stay, dimmed, and text once written never changes. Until the first text
 * arrives, a terminal counts the seconds.
 */
export class AnswerPrinter {
  readonly #markdown: MarkdownStyle | undefined
  #timer: NodeJS.Timeout | undefined
  #shown: 'nothing' | 'thinking' | 'text' = 'nothing'
  #last = '\n'

  constructor(
    private readonly output: Output,
    private readonly showThinking: boolean,
    env: NodeJS.ProcessEnv,
  ) {
    const isTerminal = output.isTTY === true && env['TERM'] !== 'dumb'
    if (isTerminal && !env['NO_COLOR']) this.#markdown = new MarkdownStyle()
    const begin = performance.now()
    const tell = () => output.write(`\r… ${Math.round((performance.now() - begin) / 1000)} s`)
    if (isTerminal) this.#timer = setInterval(tell, 1000)
  }

  /** Writes a piece of the answer. */
  show(part: AnswerPart): void {
    if (part.type === 'text') this.#write('text', part.text)
    else if (part.type === 'thinking' && this.showThinking) this.#write('thinking', part.text)
  }

  /** Ends the line, also of an answer that was stopped. */
  end(): void {
    this.#arrived()
    this.output.write(this.#markdown?.add('', true) ?? '')
    if (this.#last !== '\n') this.output.write('\n')
    this.#last = '\n'
  }

  #arrived(): void {
    if (this.#timer !== undefined) this.output.write('\r\u001B[K')
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Answers and reasoning often begin with line breaks, which only take room. */
  #write(kind: 'thinking' | 'text', text: string): void {
    const shown = this.#shown === kind ? text : text.trimStart()
    if (shown === '') return
    this.#arrived()
    if (this.#shown === 'thinking' && kind === 'text') {
      this.output.write(this.#last === '\n' ? '\n' : '\n\n')
    }
    this.#shown = kind
    const markdown = this.#markdown
    const drawn = kind === 'text' ? markdown?.add(shown) : markdown && styled(shown, dim)
    this.output.write(drawn ?? shown)
    this.#last = shown.at(-1)!
  }
}

/** Styles Markdown that comes in pieces for a terminal. Each character is written once, and in its place. */
class MarkdownStyle {
  /** The end of the text that may yet become a sign, such as the first of two asterisks. */
  #held = ''
  #isLineStart = true
  /** The fence that began the block of code, and the sign that began code in the line. */
  #fence = ''
  #code = ''
  /** The style of the whole line. */
  #line = ''
  #bold = ''

  /** Takes a piece, and returns what can be written now. */
  add(text: string, isLast = false): string {
    const all = this.#held + text
    const end = isLast ? all.length : all.search(/(?<![^\n]) *(?:#*|`*|~*)$|[`*]*$/)
    this.#held = all.slice(end)
    return all
      .slice(0, end)
      .replace(/\n|`+|\*+|[^\n`*]+/g, (part, at: number) => this.#style(part, all.slice(at)))
  }

  /** @param left - the text from this part on */
  #style(part: string, left: string): string {
    if (part === '\n') {
      this.#isLineStart = true
      this.#line = this.#bold = this.#code = ''
      return part
    }
    if (this.#isLineStart) this.#beginLine(left)
    if (this.#fence !== '' || this.#line === dim) return styled(part, this.#line || cyan)
    if (part.startsWith('`') && (this.#code === '' || this.#code === part)) {
      this.#code = this.#code === '' ? part : ''
    } else if (this.#code === '' && (this.#bold ? /^\*\*/ : /^\*{2,3}[^*\s]/).test(left)) {
      this.#bold = this.#bold === '' ? bold : ''
    } else return styled(part, this.#line || this.#bold, this.#code && cyan)
    return styled(part, dim)
  }

  #beginLine(left: string): void {
    this.#isLineStart = false
    const [, fence = ''] = /^ *(`{3,}|~{3,})/.exec(left) ?? []
    const isEnd = this.#fence !== '' && fence.startsWith(this.#fence)
    if (isEnd || (this.#fence === '' && fence !== '')) {
      this.#line = dim
      this.#fence = isEnd ? '' : fence
    } else if (this.#fence === '' && /^#{1,6} /.test(left)) this.#line = bold
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
