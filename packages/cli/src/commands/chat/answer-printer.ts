import type { Output } from '../command-io.js'
import type { AnswerPart } from './chat-stream.js'

const dim = '\u001B[2m'
const plain = '\u001B[22m'

/** How an answer is shown. */
export interface PrintOptions {
  /** Whether to show the model's reasoning, dimmed. */
  readonly showThinking: boolean
  /** Whether the output takes colours. */
  readonly colours: boolean
}

/** Writes an answer while it arrives. */
export class AnswerPrinter {
  #shown: 'nothing' | 'thinking' | 'text' = 'nothing'
  #last = '\n'

  constructor(
    private readonly output: Output,
    private readonly options: PrintOptions,
  ) {}

  /** Writes a piece of the answer. */
  show(part: AnswerPart): void {
    if (part.type === 'end' || part.type === 'call') return
    if (part.type === 'thinking') this.#thinking(part.text)
    else this.#text(part.text)
  }

  /** Ends the line, also of an answer that was stopped. */
  end(): void {
    this.#leaveThinking()
    if (this.#last !== '\n') this.output.write('\n')
  }

  #thinking(text: string): void {
    const { showThinking, colours } = this.options
    if (!showThinking) return
    if (this.#shown !== 'thinking' && colours && text.trim() !== '') this.output.write(dim)
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
    if (this.options.colours) this.output.write(plain)
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
