import { readFile, writeFile } from 'node:fs/promises'
import { CllmError, ownEntry } from '@cllm/core'
import type { ServerClient } from '../server/server-client.js'
import { readMedia, type Message } from './chat-stream.js'
import type { Conversation, SavedConversation } from './conversation.js'
import { requestDefaults } from '../../config/options/model-options.js'
import { integer, type ValueFormat } from '../../config/options/value-format.js'
import { suggestion } from '../../config/messages.js'

const formats: Readonly<Record<string, ValueFormat<unknown>>> = {
  ...Object.fromEntries(
    Object.entries(requestDefaults).map(([name, { format }]) => [name, format]),
  ),
  seed: integer(0, 2 ** 32 - 1),
}

/** Ollama's names for parameters that have another name here. */
const others: Readonly<Record<string, string>> = {
  num_predict: 'max_tokens',
  repeat_penalty: 'repetition_penalty',
}

/** The parameters that `/set parameter` takes. */
const parameterNames: readonly string[] = [...Object.keys(formats), 'stop']

/**
 * Reads a parameter as a field of `POST /v1/chat/completions`.
 *
 * @throws CllmError `invalid_request` for an unknown name or a value out of range
 */
export function readParameter(
  given: string,
  text: string,
): readonly [name: string, value: unknown] {
  const name = ownEntry(others, given) ?? given
  if (name === 'stop') return [name, text]
  const format = ownEntry(formats, name)
  if (format === undefined) {
    const meant = suggestion(name, parameterNames)
    throw wrong(`unknown parameter ${given}: expected one of ${parameterNames.join(', ')}${meant}`)
  }
  try {
    return [name, format.read(text)]
  } catch (error) {
    throw wrong(`${given}: ${(error as Error).message}, got ${text}`)
  }
}

/** The error of a wrong command. */
const wrong = (message: string): CllmError => new CllmError('invalid_request', message)

const help = `  /set          Change a setting
  /show         Show the model or the settings
  /image <file> Put an image or a sound before the next question
  /save <file>  Save the conversation
  /load <file>  Go on with a saved conversation
  /clear        Forget the conversation
  /bye          Leave; also Ctrl-D
  /help         This list; also /?

Ctrl-C stops an answer, and leaves at an empty prompt. """ begins and ends an input of several lines.
`

const setHelp = `  /set parameter <name> <value>  ${parameterNames.join(', ')}
  /set system <text>             The system message; without a text: none
  /set history | nohistory       Whether earlier messages are sent along
  /set think | nothink           Whether the model thinks, where it can
  /set format json | noformat    Whether answers are JSON
  /set verbose | quiet           Whether figures follow each answer
`

const showHelp = `  /show info      The model
  /show settings  What /set has changed
  /show system    The system message
  /show history   The conversation so far
  /show template  The model's chat template
`

/** The switches of `/set`: the words for on and off, and the reply to each. */
const switches = [
  ['history', 'nohistory', 'earlier messages are sent along', 'each message stands alone'],
  ['think', 'nothink', 'the model thinks, where it can', 'the model does not think'],
  ['verbose', 'quiet', 'figures follow each answer', 'no figures'],
] as const

/** The commands with their first words, for completion with the tab key. */
export const chatCommands: readonly string[] = [
  ...Array.from(
    (help + setHelp + showHelp).matchAll(/^ {2}(\/\w+(?: \w+)?)/gm),
    ([, command]) => command!,
  ),
  ...['noformat', ...switches.map(([, off]) => off)].map((word) => `/set ${word}`),
  ...parameterNames.map((name) => `/set parameter ${name}`),
]

/** What the commands act on. */
interface ChatContext {
  readonly conversation: Conversation
  readonly client: ServerClient
}

/**
 * Runs a line that begins with `/`. Returns what to say; undefined: the conversation is over.
 *
 * @throws CllmError what is wrong with the command
 */
export async function runChatCommand(
  line: string,
  context: ChatContext,
): Promise<string | undefined> {
  const { conversation } = context
  const [, name = '', rest = ''] = /^(\/\S*)\s*([\s\S]*)$/.exec(line.trim()) ?? []
  switch (name) {
    case '/bye':
    case '/exit':
      return undefined
    case '/?':
    case '/help':
      return rest.includes('set') ? setHelp : rest.includes('show') ? showHelp : help
    case '/clear':
      conversation.clear()
      return 'cleared\n'
    case '/set':
      return set(rest, conversation)
    case '/show':
      return await show(rest, context)
    case '/image':
      conversation.attach(await readMedia(fileIn(rest, name)))
      return `${rest} goes with the next question\n`
    case '/save':
      await writeFile(fileIn(rest, name), `${JSON.stringify(conversation.saved(), null, 2)}\n`)
      return `saved ${conversation.messages.length} messages in ${rest}\n`
    case '/load':
      conversation.restore(await load(fileIn(rest, name)))
      return `${conversation.messages.length} messages\n`
    default:
      throw wrong(`unknown command ${name}${suggestion(name, chatCommands)}; /help lists them`)
  }
}

function set(rest: string, { settings }: Conversation): string {
  const [, what = '', value = ''] = /^(\S*)\s*([\s\S]*)$/.exec(rest) ?? []
  for (const [on, off, isOn, isOff] of switches) {
    if (what !== on && what !== off) continue
    settings[on] = what === on
    return `${what === on ? isOn : isOff}\n`
  }
  const plain = value.replace(/^(["'])([\s\S]*)\1$/, '$2')
  switch (what) {
    case 'parameter': {
      const [, given = '', text = ''] = /^(\S*)\s*([\s\S]*)$/.exec(value) ?? []
      const [name, read] = readParameter(given, text)
      settings.parameters[name] = read
      return `${name} is ${JSON.stringify(read)}\n`
    }
    case 'system':
      settings.system = plain === '' ? undefined : plain
      return plain === '' ? 'no system message\n' : 'set the system message\n'
    case 'format':
      if (plain !== 'json') throw wrong('/set format: expected json')
      settings.parameters['response_format'] = { type: 'json_object' }
      return 'answers are JSON\n'
    case 'noformat':
      delete settings.parameters['response_format']
      return 'answers are text\n'
    default:
      return setHelp
  }
}

async function show(what: string, { conversation, client }: ChatContext): Promise<string> {
  const { model, settings, messages } = conversation
  switch (what) {
    case 'info':
    case 'template': {
      const shown = (await client.post('/api/show', { model })) as Shown
      return what === 'template' ? `${shown.template}\n` : infoText(model, shown)
    }
    case 'settings':
    case 'parameters':
      return `${JSON.stringify(settings, null, 2)}\n`
    case 'system':
      return `${settings.system ?? 'no system message'}\n`
    case 'history':
      return messages.map(({ role, content }) => `${role}: ${textOf(content)}\n`).join('')
    default:
      return showHelp
  }
}

/** A message as text; images and sounds are only mentioned. */
const textOf = (content: Message['content']): string =>
  typeof content === 'string'
    ? content
    : content.map(({ type, text }) => (type === 'text' ? text : `(${type})`)).join(' ')

interface Shown {
  readonly template: string
  readonly details: Readonly<Record<string, unknown>>
  readonly model_info: Readonly<Record<string, unknown>>
}

function infoText(model: string, { details, model_info: info }: Shown): string {
  const fields: Readonly<Record<string, unknown>> = {
    model,
    parameters: details['parameter_size'],
    quantization: details['quantization_level'],
    ...info,
  }
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => `  ${name.padEnd(32)}${String(value)}\n`)
    .join('')
}

async function load(file: string): Promise<SavedConversation> {
  const saved = JSON.parse(await readFile(file, 'utf8')) as Partial<SavedConversation> | null
  if (Array.isArray(saved?.messages) && typeof saved.settings === 'object') {
    return saved as SavedConversation
  }
  throw wrong(`${file} is no conversation that /save has written`)
}

function fileIn(rest: string, command: string): string {
  if (rest !== '') return rest
  throw wrong(`${command}: expected the name of a file`)
}
