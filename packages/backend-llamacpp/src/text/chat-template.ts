import {
  type ChatMessage,
  type ChatRenderOptions,
  CllmError,
  type Clock,
  type Logger,
  mediaPlace,
  type TokenId,
  messageOf,
  attempt,
} from '@cllm/core'
import { Template } from '@huggingface/jinja'
import type { JinjaTemplate } from '../native/native.js'
import { keepsLaterSystem, withUserForSystem } from './later-system.js'
import { type PlainTextGuard, unusedCharacter } from './plain-text-guard.js'
import type { RenderedTemplate } from './tokenizer.js'
import type { Vocabulary } from './vocabulary.js'

type Compile = (source: string) => JinjaTemplate

/**
 * Compiles a chat template. Where the renderer in JavaScript cannot read or render it, llama.cpp's takes
 * over; what both refuse fails with the message of the first.
 *
 * @param compileNative - llama.cpp's Jinja; default: there is none
 * @throws when the text is no template
 */
export function compileTemplate(
  source: string,
  compileNative: Compile = () => {
    throw new Error('there is no other renderer')
  },
): JinjaTemplate {
  let native: JinjaTemplate | undefined
  const second = () => (native ??= compileNative(source))
  let first: Template
  try {
    first = new Template(source)
  } catch (problem) {
    return insteadOf(problem, second)
  }
  return {
    render(values) {
      try {
        return first.render(values)
      } catch (problem) {
        return insteadOf(problem, () => second().render(values))
      }
    },
  }
}

/** What the second renderer gives; where it fails, too, the first one's problem counts. */
function insteadOf<T>(problem: unknown, second: () => T): T {
  try {
    return second()
  } catch {
    throw problem
  }
}

/** ChatML, used for models without a template of their own. */
const chatMl = `{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}`

/** What a template is compiled and filled with. */
interface TemplateTools {
  /** Default: without llama.cpp's own renderer. */
  readonly compile?: Compile
  /** For the date that some templates show; default: that of 1970. */
  readonly clock?: Pick<Clock, 'now'>
}

/** Renders conversations with the model's chat template, written in Jinja. */
export class ChatTemplate {
  /** The template's Jinja source. */
  readonly source: string
  readonly #template: JinjaTemplate
  #losesSystem: boolean | undefined
  #keepsSystem: boolean | undefined

  private constructor(
    { source, template }: CompiledTemplate,
    private readonly guard: PlainTextGuard,
    private readonly vocabulary: Vocabulary,
    private readonly clock: Pick<Clock, 'now'>,
  ) {
    this.source = source
    this.#template = template
  }

  /**
   * Takes the override, else the model's own template, else ChatML with one warning.
   * @throws CllmError `invalid_configuration` when the override is not valid Jinja
   */
  static choose(
    override: string | undefined,
    own: string | undefined,
    guard: PlainTextGuard,
    vocabulary: Vocabulary,
    logger: Logger,
    { compile = compileTemplate, clock = { now: () => 0 } }: TemplateTools = {},
  ): ChatTemplate {
    const compiled =
      override === undefined ? compileOwn(own, logger, compile) : compileOverride(override, compile)
    return new ChatTemplate(compiled, guard, vocabulary, clock)
  }

  /** @throws CllmError `invalid_request` with the template's own message when it rejects the conversation */
  render(messages: readonly ChatMessage[], options: ChatRenderOptions = {}): RenderedTemplate {
    const { addGenerationPrompt = true, continueFinalMessage = false, variables = {} } = options
    const marked = markMedia(messages)
    const hidden = this.guard.hide({ variables, messages: marked.messages })
    const given = hidden.value.messages
    const isOpen = continueFinalMessage && given.length > 0
    const date = new Date(this.clock.now())
    // 'Wed, 26 Jul 2024 …'
    const [, day, month, year] = date.toUTCString().split(' ')
    // what templates ask for and no client sends, as llama.cpp's server has it
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
   * Some templates refuse a system message, or pass it over: it then goes in front of the user's first one,
   * as in llama.cpp. More of them refuse one in the middle of a conversation, pass it over, or write it at the
   * beginning, which changes with each new one: it is then a part of the user's message before or after it.
   */
  #render(given: readonly ChatMessage[], context: Readonly<Record<string, unknown>>): string {
    let isKept = true
    for (let index = 1; index < given.length && isKept; index++) {
      if (given[index]!.role !== 'system') continue
      isKept = this.#keepsSystem ??= keepsLaterSystem(this.#template)
    }
    const messages = isKept ? given : withUserForSystem(given)
    const [system, user, ...others] = messages
    let attempts = [messages]
    if (system?.role === 'system' && user?.role === 'user') {
      const merged = [{ ...user, content: `${system.content}\n${user.content}` }, ...others]
      attempts = this.#passesOverSystem() ? [merged] : [messages, merged]
    }
    let problem: unknown
    for (const attempt of attempts) {
      try {
        return this.#template.render({ ...context, messages: attempt })
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

  /** Whether the template writes nothing of a system message. */
  #passesOverSystem(): boolean {
    const messages = [
      { role: 'system', content: probe },
      { role: 'user', content: 'Hello' },
    ]
    // Where it cannot be rendered, it is found out with each conversation.
    const rendered = () => attempt(() => this.#template.render({ messages }), probe)
    return (this.#losesSystem ??= !rendered().includes(probe))
  }
}

/** The messages with a mark, which is nowhere else in them, in place of each image. */
function markMedia(messages: readonly ChatMessage[]): {
  readonly messages: readonly ChatMessage[]
  readonly mark: string | undefined
} {
  let mark: string | undefined
  const marked: ChatMessage[] = []
  for (const { media = [], ...message } of messages) {
    if (media.length > 0) mark ??= unusedCharacter(messages.map(({ content }) => content))
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

/** The pieces' tokens with the place of an image between each two. */
function* withPlaces(pieces: readonly RenderedTemplate[]): Generator<TokenId[], void> {
  for (const [index, { tokens }] of pieces.entries()) {
    if (index > 0) yield [mediaPlace]
    yield* tokens
  }
}

/** No template writes this by itself. */
const probe = 'cllm-probe'

interface CompiledTemplate {
  readonly source: string
  readonly template: JinjaTemplate
}

/** Ends the text of the last message while it is rendered; no template writes such a thing. */
const openEnd = '\u2063cllm-open-end\u2063'

/** The messages with an end behind the last one's text, behind which a template may write. */
function withOpenEnd(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.map((message, index) => {
    if (index < messages.length - 1) return message
    // most templates trim, and the end must be found
    return { ...message, content: message.content.trimEnd() + openEnd }
  })
}

function upToOpenEnd(text: string): string {
  const at = text.lastIndexOf(openEnd)
  if (at >= 0) return text.slice(0, at)
  throw new CllmError(
    'invalid_request',
    "the model's chat template does not show the last message: it cannot be continued",
    { details: { field: 'messages' } },
  )
}

function compileOverride(source: string, compile: Compile): CompiledTemplate {
  try {
    return { source, template: compile(source) }
  } catch (cause) {
    throw new CllmError(
      'invalid_configuration',
      `chatTemplate is not a valid Jinja template: ${messageOf(cause)}`,
      { cause, details: { field: 'chatTemplate' } },
    )
  }
}

function compileOwn(
  source: string | undefined,
  logger: Logger,
  compile: Compile,
): CompiledTemplate {
  let reason = 'has no chat template'
  try {
    if (source !== undefined) return { source, template: compile(source) }
  } catch (cause) {
    reason = `has a chat template that cannot be read (${messageOf(cause)})`
  }
  logger.warn({ template: 'chatml' }, `the model ${reason}: using ChatML for conversations`)
  return { source: chatMl, template: compileTemplate(chatMl) }
}
