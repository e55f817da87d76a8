import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { CllmError } from '@cllm/core'
import { reasonOf } from '../../config/messages.js'
import type { CommandIo, Input, Output } from '../command.js'
import type { ServerClient } from '../server/server-client.js'
import { printAnswer } from './answer-printer.js'
import { runChatCommand, chatCommandNames } from './chat-commands.js'
import type { Conversation, Tools } from './conversation.js'

const prompt = '>>> '
const going = '... '

/** Asks and answers in a terminal until somebody leaves. */
export async function chatInteractively(
  conversation: Conversation,
  client: ServerClient,
  io: CommandIo & { readonly showThinking: boolean; readonly hasTools: boolean },
): Promise<void> {
  const { stdin, stdout: output, signal } = io
  if (stdin === undefined) return
  const typed = new MultiLine()
  const terminal = chatTerminal(stdin, output, () => typed.drop())
  const leave = (): void => terminal.close()
  signal.addEventListener('abort', leave, { once: true })
  output.write(`${conversation.model}: /? for help, /bye to leave\n`)
  try {
    if (io.hasTools) conversation.offer(await mcpTools(client, signal, terminal))
    for (;;) {
      const line = await terminal.line(typed.isOpen ? going : prompt)
      if (line === undefined) return
      const input = typed.push(line)
      if (input === undefined || input.trim() === '') continue
      try {
        if (!input.startsWith('/')) await answer(input)
        else if (!(await runChatCommand(input, { conversation, client, output }))) return
      } catch (error) {
        // What goes wrong with one question does not end the chat.
        if (signal.aborted) return
        output.write(`error: ${reasonOf(error)}\n`)
      }
    }
  } finally {
    signal.removeEventListener('abort', leave)
    terminal.close()
  }

  async function answer(question: string): Promise<void> {
    const { showThinking } = io
    await terminal.stoppable(async (stopped) => {
      const either = AbortSignal.any([signal, stopped])
      await printAnswer(conversation, question, either, { output, notes: output, showThinking })
    })
    output.write('\n')
  }
}

const quotes = '"""'

/** Collects what is typed into whole inputs: a line, or all lines between two `"""`. */
class MultiLine {
  #lines: string[] | undefined

  /** Whether the input goes on in the next line. */
  get isOpen(): boolean {
    return this.#lines !== undefined
  }

  /** Takes a line; returns the whole input, or undefined while it goes on. */
  push(line: string): string | undefined {
    if (this.#lines === undefined) {
      if (!line.trimStart().startsWith(quotes)) return line
      this.#lines = []
      line = line.trimStart().slice(quotes.length)
    }
    const end = line.lastIndexOf(quotes)
    this.#lines.push(end === -1 ? line : line.slice(0, end))
    if (end === -1) return undefined
    const input = this.#lines.join('\n')
    this.drop()
    return input.trim()
  }

  /** Forgets the lines so far. */
  drop(): void {
    this.#lines = undefined
  }
}

/**
 * The tools of the server's MCP servers, each call of which the person at the terminal agrees to or not.
 *
 * @throws CllmError where the server has none
 */
async function mcpTools(
  client: ServerClient,
  signal: AbortSignal,
  terminal: Pick<ChatTerminal, 'consent'>,
): Promise<Tools> {
  const { data } = (await client.get('/mcp/tools', signal)) as {
    readonly data: readonly { name: string; description: string; parameters: object }[]
  }
  return {
    offered: data.map(({ name, description, parameters }) => {
      return { type: 'function', function: { name, description, parameters } }
    }),
    async run({ name, arguments: given }, stopped) {
      if (!(await terminal.consent(`Run ${name} ${given}?`))) return 'The user refused this call.'
      try {
        const body = { name, arguments: JSON.parse(given === '' ? '{}' : given) as unknown }
        const { content } = (await client.post('/mcp/call', body, stopped)) as {
          readonly content: string
        }
        return content
      } catch (error) {
        if (stopped.aborted) throw error
        // The model may call it in another way.
        return CllmError.from(error).message
      }
    },
  }
}

/** Where lines are typed, and what Ctrl-C does there. */
interface ChatTerminal {
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
function chatTerminal(
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
      reader.setPrompt(prompt)
      reader.prompt()
    }
  })
  const terminal: ChatTerminal = {
    async line(beginning) {
      isOpen = beginning !== prompt
      reader.setPrompt(beginning)
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
