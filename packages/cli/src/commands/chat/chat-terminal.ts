import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Input, Output } from '../command.js'
import { chatCommandNames } from './chat-commands.js'

/** Where lines are typed, and what Ctrl-C does there. */
export interface ChatTerminal {
  /** The next line; undefined when the input ends or somebody leaves. */
  line(prompt: string): Promise<string | undefined>
  /** Asks in the middle of an answer; lines that were typed before are no answer to it. */
  consent(question: string): Promise<boolean>
  /**
   * Runs something that Ctrl-C stops, by aborting the signal. What is typed meanwhile is not shown;
   * whole lines are the next ones.
   */
  stoppable(run: (signal: AbortSignal) => Promise<void>): Promise<void>
  close(): void
}

/** Reads lines from a terminal, with history and editing. */
export function chatTerminal(
  input: Input,
  output: Output,
  /** Called for Ctrl-C in the middle of an input of several lines. */
  onDrop: () => void,
): ChatTerminal {
  let isMuted = false
  const echo = new Writable({
    write(chunk: Buffer, _, done) {
      if (!isMuted) output.write(chunk.toString())
      done()
    },
  })
  const { columns } = output as Partial<NodeJS.WriteStream>
  Object.assign(echo, { isTTY: true, columns })
  const lines: string[] = []
  let isClosed = false
  let wake = (): void => {}
  let stop: (() => void) | undefined
  const reader = createInterface({
    input,
    output: echo,
    terminal: true,
    completer: (line: string) => [
      line.startsWith('/') ? chatCommandNames.filter((name) => name.startsWith(line)) : [],
      line,
    ],
  })
  reader.on('line', (line) => {
    lines.push(line)
    wake()
  })
  reader.on('close', () => {
    isClosed = true
    wake()
  })
  let isOpen = false
  let isAsking = false
  reader.on('SIGINT', () => {
    if (stop !== undefined) {
      stop()
      if (isAsking) lines.push('') // which is no consent
      wake()
    } else if (reader.line === '' && !isOpen) reader.close()
    else {
      isOpen = false
      onDrop()
      reader.write(null, { ctrl: true, name: 'u' })
      output.write('\n')
      reader.setPrompt('>>> ')
      reader.prompt()
    }
  })
  const terminal: ChatTerminal = {
    async line(prompt) {
      isOpen = prompt !== '>>> '
      reader.setPrompt(prompt)
      if (!isClosed) reader.prompt()
      while (lines.length === 0) {
        if (isClosed) {
          output.write('\n')
          return undefined
        }
        await new Promise<void>((resolve) => (wake = resolve))
      }
      return lines.shift()
    },
    async consent(question) {
      const typed = lines.splice(0)
      isMuted = false
      isAsking = true
      const answer = await terminal.line(`${question} [y/N] `)
      isAsking = false
      isMuted = stop !== undefined
      lines.unshift(...typed)
      return /^\s*y(es)?\s*$/i.test(answer ?? '')
    },
    async stoppable(run) {
      const controller = new AbortController()
      stop = () => controller.abort()
      isMuted = true
      try {
        await run(controller.signal)
      } finally {
        stop = undefined
        isMuted = false
      }
    },
    close: () => reader.close(),
  }
  return terminal
}
