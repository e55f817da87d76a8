import { addAbortSignal } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type CommandIo, type Output, defineCommand } from '../command.js'
import { many, one, toggle, wrong } from '../flags.js'
import { mayBeModel, openServer } from '../server/open-server.js'
import { serverFlags } from '../config-flags.js'
import { unlessStopped } from '../../process/stop-signal.js'
import { printAnswer } from './answer-printer.js'
import { readParameter } from './chat-commands.js'
import { Conversation } from './conversation.js'
import { chatInteractively } from './chat-interactively.js'
import { readMedia } from './chat-stream.js'

const interrupted = 130

/** One chat needs one slot; flags behind `--` come later, so they win. */
const oneChat = ['--slots', '1'] as const

/** `cllm run` */
export const run = defineCommand({
  usage: 'run [<model>] [<prompt>] [-- <flags of cllm serve>]',
  doc: `
Chats with a model in the terminal, or answers a prompt. Piped input is added to the prompt:
\`git diff | cllm run "Review this."\` Without a model name, it uses the running server's model.
If no server runs, or it does not serve the model, the command starts a server of its own; flags
after \`--\` go to that server. If the model is not downloaded and the running server has a single
model, it uses that one and says so.

In a chat, /? lists the commands, Ctrl-C stops an answer and Ctrl-D leaves.`,
  flags: {
    system: one('TEXT', 'The system message'),
    parameter: many('NAME=VALUE', 'Such as temperature=0 or max_tokens=200', parameter),
    image: many('FILE', 'An image or a sound before the prompt', (file) => file),
    mcp: toggle("Offer the tools of the server's MCP servers; each call asks you"),
    think: toggle('Turn thinking on'),
    nothink: toggle('Turn thinking off'),
    'hide-thinking': toggle('Hide the thinking'),
    verbose: toggle('Show figures after each answer'),
    ...serverFlags,
  },
  async run({ flags, words, rest }, io) {
    let [spec, prompt] = modelAndPrompt(words)
    const isChat = prompt === undefined && io.stdin?.isTTY === true
    if (flags.mcp && !isChat) {
      throw wrong('--mcp asks before each call: it needs a chat in a terminal, without a prompt')
    }
    const media = await Promise.all(flags.image.map(readMedia))
    if (flags.think && flags.nothink) throw wrong('--think and --nothink exclude each other')
    const piped = await pipedText(io)
    if (piped !== '' && prompt === undefined && !(await mayBeModel(spec, flags, io))) {
      io.stderr.write(`${spec} is no known model: it is taken as the prompt\n`)
      ;[spec, prompt] = [undefined, spec]
    }
    const question = isChat ? '' : questionOf(prompt, piped)
    if (isChat && io.stdout.isTTY === true) io.stderr.write(`opening ${spec ?? 'a model'} …\n`)
    const server = await openServer(spec, flags, [...oneChat, ...rest], io)
    try {
      const conversation = new Conversation(server.client, server.model, {
        system: flags.system,
        parameters: Object.fromEntries(flags.parameter),
        think: flags.think ? true : flags.nothink ? false : undefined,
        verbose: flags.verbose,
      })
      conversation.attach(...media)
      const showThinking = !flags['hide-thinking'] && io.stdout.isTTY === true
      const shown = { ...io, showThinking, hasTools: flags.mcp }
      if (isChat) await chatInteractively(conversation, server.client, shown)
      else {
        // Nothing but the answer goes to standard output.
        const signal = AbortSignal.any([io.signal, brokenPipe(io.stdout)])
        await printAnswer(conversation, question, signal, { ...shown, notes: io.stderr })
      }
      return io.signal.aborted ? interrupted : 0
    } finally {
      await server.close()
    }
  },
})

/** A single argument with a space is a prompt: no model's name has one, and a path has a separator. */
function modelAndPrompt([first, second]: readonly string[]): readonly (string | undefined)[] {
  const isPrompt = second === undefined && /\s/.test(first ?? '') && !/[\\/]|\.gguf$/.test(first!)
  return isPrompt ? [undefined, first] : [first, second]
}

function parameter(text: string): readonly [string, unknown] {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (name === undefined || value === undefined) throw new Error('expected NAME=VALUE')
  try {
    return readParameter(name, value)
  } catch (cause) {
    throw wrong(`--parameter: ${(cause as Error).message}`)
  }
}

async function pipedText({ stdin, signal }: CommandIo): Promise<string> {
  if (stdin === undefined || stdin.isTTY === true) return ''
  const read = await unlessStopped(signal, text(addAbortSignal(signal, stdin)))
  signal.throwIfAborted()
  return (read ?? '').trimEnd()
}

/** The prompt, with what is piped in behind it. */
function questionOf(prompt: string | undefined, piped: string): string {
  const question = [prompt ?? '', piped].filter((part) => part !== '').join('\n\n')
  if (question !== '') return question
  throw wrong(
    'a prompt is missing (a word alone is a model): write it behind, pipe it in, or run this in a terminal',
  )
}

/** Aborted when no more can be written, as behind `| head` or on a full disk, which the process reports. */
function brokenPipe(output: Output): AbortSignal {
  const controller = new AbortController()
  const stream = output as Partial<NodeJS.WriteStream>
  stream.on?.('error', () => controller.abort())
  return controller.signal
}
