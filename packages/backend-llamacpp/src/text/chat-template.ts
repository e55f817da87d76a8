import {
  type ChatMessage,
  type ChatRenderOptions,
  CllmError,
  type Clock,
  mediaPlace,
  type TokenId,
  messageOf,
} from '@cllm/core'
import type { JinjaTemplate } from '../native/native.js'
import { keepsLaterSystem, losesSystem } from './compile-template.js'
import { type PlainTextGuard, unusedCharacter } from './plain-text-guard.js'
import type { RenderedTemplate } from './tokenizer.js'
import type { Vocabulary } from './vocabulary.js'

/** Renders conversations with the model's chat template, written in Jinja. */
export class ChatTemplate {
  #losesSystem: boolean | undefined
  #keepsSystem: boolean | undefined

  /**
   * @param source - the template's text
   * @param clock - for templates that show the date
   */
  constructor(
    readonly source: string,
    private readonly template: JinjaTemplate,
    private readonly guard: PlainTextGuard,
    private readonly vocabulary: Vocabulary,
    private readonly clock: Pick<Clock, 'wall'>,
  ) {}

  /** @throws CllmError `invalid_request` with the template's own message when it rejects the conversation */
  render(messages: readonly ChatMessage[], options: ChatRenderOptions = {}): RenderedTemplate {
    const { addGenerationPrompt = true, continueFinalMessage = false, variables = {} } = options
    const marked = markMedia(messages, variables)
    const hidden = this.guard.hide({ variables, messages: marked.messages })
    const given = hidden.value.messages
    const isOpen = continueFinalMessage && given.length > 0
    const date = new Date(this.clock.wall())
    // 'Wed, 26 Jul 2024 …'
    const [, day, month, year] = date.toUTCString().split(' ')
    // variables that some templates need and no client sends, as in llama.cpp's server
    const text = this.#render(isOpen ? withOpenEnd(given) : given, {
      enable_thinking: true,
      ...(date.getTime() !== 0 && {
        date_string: `${day} ${month} ${year}`,
        datetime: `${month} ${day} ${year}`,
      }),
      ...hidden.value.variables,
      add_generation_prompt: addGenerationPrompt && !continueFinalMessage,
      bos_token: this.vocabulary.bosText,
      eos_token: this.vocabulary.eosText,
    })
    const whole = (isOpen ? upToOpenEnd(text) : text) + (options.suffix ?? '')
    if (marked.mark === undefined) return this.guard.show(whole, hidden)
    const pieces = whole.split(marked.mark).map((piece) => this.guard.show(piece, hidden))
    return { text: pieces.map((piece) => piece.text).join(''), tokens: withPlaces(pieces) }
  }

  /**
   * Some templates refuse or drop a system message: it is then put before the user's first message, as in llama.cpp.
   * More templates refuse or drop one in the middle of a conversation, or write it at the beginning, which would
   * change with each new one: it is then put into the user's message before or after it.
   */
  #render(given: readonly ChatMessage[], context: Readonly<Record<string, unknown>>): string {
    let isKept = true
    for (let index = 1; index < given.length && isKept; index++) {
      if (given[index]!.role !== 'system') continue
      isKept = this.#keepsSystem ??= keepsLaterSystem(this.template)
    }
    const messages = isKept ? given : withUserForSystem(given)
    const [system, user, ...others] = messages
    let attempts = [messages]
    if (system?.role === 'system' && user?.role === 'user') {
      const merged = [{ ...user, content: `${system.content}\n${user.content}` }, ...others]
      this.#losesSystem ??= losesSystem(this.template)
      attempts = this.#losesSystem ? [merged] : [messages, merged]
    }
    let problem: unknown
    for (const attempt of attempts) {
      try {
        return this.template.render({ ...context, messages: attempt })
      } catch (error) {
        problem = error
      }
    }
    throw new CllmError(
      'invalid_request',
      `the model's chat template refuses these messages: ${messageOf(problem)}`,
      { cause: problem, details: { field: 'messages' } },
    )
  }
}

/** The messages with a mark in place of each image, which occurs nowhere else in the template's input. */
function markMedia(
  messages: readonly ChatMessage[],
  variables: object,
): { readonly messages: readonly ChatMessage[]; readonly mark: string | undefined } {
  let mark: string | undefined
  const marked: ChatMessage[] = []
  for (const { media = [], ...message } of messages) {
    if (media.length > 0) {
      mark ??= unusedCharacter([variables, messages.map(({ media: _media, ...texts }) => texts)])
    }
    let content = ''
    let from = 0
    for (const { at } of media) {
      content += message.content.slice(from, at) + mark
      from = at
    }
    marked.push({ ...message, content: content + message.content.slice(from) })
  }
  return { messages: marked, mark }
}

/** The tokens of the pieces, with an image's placeholder between each two. */
function* withPlaces(pieces: readonly RenderedTemplate[]): Generator<TokenId[], void> {
  for (const [index, { tokens }] of pieces.entries()) {
    if (index > 0) yield [mediaPlace]
    yield* tokens
  }
}

/** Marks the end of the last message's text while it is rendered; no template writes it. */
const openEnd = '\u2063cllm-open-end\u2063'

/** The messages with that mark behind the last one's text, as templates may write something behind it. */
function withOpenEnd(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.at(-1)!
  // most templates trim messages, which would separate the text from the mark
  return [...messages.slice(0, -1), { ...last, content: last.content.trimEnd() + openEnd }]
}

function upToOpenEnd(text: string): string {
  const at = text.lastIndexOf(openEnd)
  if (at >= 0) return text.slice(0, at)
  const message = "the model's chat template does not show the last message: it cannot be continued"
  throw new CllmError('invalid_request', message, { details: { field: 'messages' } })
}

/** Turns system messages behind the first message into the user's, and merges consecutive messages of the user. */
function withUserForSystem(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const shown = messages.slice(0, 1)
  for (const message of messages.slice(1)) {
    const role = message.role === 'system' ? 'user' : message.role
    const before = shown.at(-1)
    const isSame = role === 'user' && before?.role === 'user'
    const content = isSame ? `${before.content}\n\n${message.content}` : message.content
    if (isSame) shown[shown.length - 1] = { ...before, content }
    else shown.push({ ...message, role })
  }
  return shown
}
