import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { CllmError } from '@cllm/core'
import { reasonOf } from '../../config/messages.js'
import type { CommandIo, Input, Output } from '../command.js'
import type { ServerClient } from '../server/server-client.js'
import { printAnswer } from './answer-printer.js'
import { runChatCommand, chatCommands } from './chat-commands.js'
import type { Conversation, Tools } from './conversation.js'

const prompt = '>>> '
const going = '... '

/** Asks and answers in a terminal until the user leaves. */
export async function chatInteractively(
  conversation: Conversation,
  client: ServerClient,
  io: CommandIo & { readonly showThinking: boolean; readonly hasTools: boolean },
): Promise<void> {
  const { stdin, stdout: output, signal } = io
  if (stdin === undefined) return
  const context = { conversation, client }
  const terminal = chatTerminal(stdin, output)
  const shown = { ...io, notes: output }
  const answer = async (question: string): Promise<string> => {
    await terminal.stoppable(async (stopped) => {
      await printAnswer(conversation, question, AbortSignal.any([signal, stopped]), shown)
    })
    return '\n'
  }
  const leave = (): void => terminal.close()
  signal.addEventListener('abort', leave, { once: true })
  output.write(`${conversation.model}: /? for help, /bye to leave\n`)
  try {
    if (io.hasTools) conversation.offer(await mcpTools(client, signal, terminal, output))
    for (;;) {
      const input = await terminal.next(prompt)
      if (input === undefined) return
      if (input.trim() === '') continue
      try {
        const isCommand = input.startsWith('/')
        const said = isCommand ? await runChatCommand(input, context) : await answer(input)
        if (said === undefined) return
        output.write(said)
      } catch (error) {
        // The failure of one question does not end the chat.
        if (signal.aborted) return
        output.write(`error: ${reasonOf(error)}\n`)
        if (conversation.hasMedia) output.write('what is attached goes with the next question\n')
      }
    }
  } finally {
    signal.removeEventListener('abort', leave)
    terminal.close()
  }
}

/**
 * The tools of the server's MCP servers; the user at the terminal agrees to each call or refuses it.
 *
 * @throws CllmError where the server has none
 */
async function mcpTools(
  client: ServerClient,
  signal: AbortSignal,
  terminal: Pick<ChatTerminal, 'consent'>,
  output: Output,
): Promise<Tools> {
  const { data, problems } = (await client.get('/mcp/tools', signal)) as {
    readonly data: readonly { name: string; description: string; parameters: object }[]
    readonly problems: readonly string[]
  }
  for (const problem of problems) output.write(`${problem}\n`)
  return {
    offered: data.map(({ name, description, parameters }) => {
      return { type: 'function', function: { name, description, parameters } }
    }),
    async run({ name, arguments: given }, stopped) {
      if (!(await terminal.consent(`Run ${name} ${given}?`))) return 'The user refused this call.'
      try {
        const body = { name, arguments: JSON.parse(given === '' ? '{}' : given) as unknown }
        const made = (await client.post('/mcp/call', body, stopped)) as { readonly content: string }
        return made.content
      } catch (error) {
        if (stopped.aborted) throw error
        // The model gets the error, and may call the tool in another way.
        return CllmError.from(error).message
      }
    },
  }
}

type ChatTerminal = ReturnType<typeof chatTerminal>

/** Inputs that begin with `"""`: one without the closing signs yet, and a whole one. */
const open = /^\s*"""(?![^]*""")/
const quoted = /^\s*"""([^]*)"""[^]*$/

/** Asks a terminal to mark where pasted text begins and ends. */
const [pasteOn, pasteOff] = ['\u001B[?2004h', '\u001B[?2004l']

/** Reads inputs from a terminal, with history and editing: lines, or several that are pasted or in `"""`. */
function chatTerminal(input: Input, output: Output) {
  let isMuted = false
  const echo = new Writable({
    write(chunk: Buffer, _, done) {
      if (!isMuted) output.write(chunk.toString())
      done()
    },
  })
  const window = output as Partial<NodeJS.WriteStream>
  const fit = (): void => {
    Object.assign(echo, { isTTY: true, columns: window.columns })
    echo.emit('resize')
  }
  fit()
  window.on?.('resize', fit)
  const inputs: string[] = []
  let typed = ''
  let isPasting = false
  let isClosed = false
  let isAsking = false
  let wake = (): void => {}
  let stop: (() => void) | undefined
  const reader = createInterface({
    input,
    output: echo,
    terminal: true,
    completer: (line: string) => [completions(line), line],
  })
  const show = (prompt: string): void => {
    reader.setPrompt(prompt)
    if (!isClosed) reader.prompt()
  }
  output.write(pasteOn)
  input.on('keypress', (_, { name }: { readonly name?: string }) => {
    if (name === 'paste-start' || name === 'paste-end') isPasting = name === 'paste-start'
  })
  reader.on('line', (line) => {
    typed += line
    if (isPasting || open.test(typed)) {
      typed += '\n'
      if (!isPasting) show(going)
      return
    }
    inputs.push(typed.replace(quoted, (_, text: string) => text.trim()))
    typed = ''
    wake()
  })
  reader.on('close', () => {
    isClosed = true
    window.off?.('resize', fit)
    output.write(pasteOff)
    wake()
  })
  reader.on('SIGINT', () => {
    if (stop !== undefined) {
      stop()
      if (isAsking) inputs.push('') // which is no consent
      wake()
    } else if (reader.line + typed === '') reader.close()
    else {
      typed = ''
      reader.write(null, { ctrl: true, name: 'u' })
      output.write('\n')
      show(prompt)
    }
  })
  const terminal = {
    /** The next input; undefined when there is no more or the user leaves. */
    async next(beginning: string): Promise<string | undefined> {
      show(typed === '' ? beginning : going)
      while (inputs.length === 0) {
        if (isClosed) {
          output.write('\n')
          return undefined
        }
        await new Promise<void>((resolve) => (wake = resolve))
      }
      return inputs.shift()
    },
    /** Asks in the middle of an answer; what was typed before is no answer to it. */
    async consent(question: string): Promise<boolean> {
      const before = inputs.splice(0)
      const begun = typed
      typed = ''
      isMuted = false
      isAsking = true
      const answer = await terminal.next(`${question} [y/N] `)
      isAsking = false
      isMuted = stop !== undefined
      inputs.unshift(...before)
      typed = begun
      return /^\s*y(es)?\s*$/i.test(answer ?? '')
    },
    /**
     * Runs something that Ctrl-C stops, by aborting the signal. What is typed meanwhile is not shown; whole inputs wait
     * for their turn.
     */
    async stoppable(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
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

/** The commands that begin with a line, up to their next word. */
const completions = (line: string): string[] =>
  chatCommands.filter((known) => known.startsWith(line) && !known.slice(line.length).includes(' '))
