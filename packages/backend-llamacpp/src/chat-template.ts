import { CllmError, type ChatMessage, type ChatRenderOptions, type TokenId } from '@cllm/core'
import type { Logger } from '@cllm/core'
import { Template } from '@huggingface/jinja'
import type { PlainTextGuard } from './plain-text-guard.js'
import type { Vocabulary } from './vocabulary.js'

/** ChatML, the format of models that bring no template. */
const chatMl = `{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}`

/** A rendered conversation without the begin token that the model may want in front. */
export interface RenderedTemplate {
  readonly text: string
  /** A part at a time. */
  readonly tokens: Iterable<TokenId[]>
}

/** Renders conversations with the model's chat template, written in Jinja. */
export class ChatTemplate {
  readonly #template: Template
  readonly #guard: PlainTextGuard
  readonly #vocabulary: Vocabulary

  private constructor(template: Template, guard: PlainTextGuard, vocabulary: Vocabulary) {
    this.#template = template
    this.#guard = guard
    this.#vocabulary = vocabulary
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
  ): ChatTemplate {
    if (override !== undefined) {
      return new ChatTemplate(compileOverride(override), guard, vocabulary)
    }
    return new ChatTemplate(compileOwn(own, logger), guard, vocabulary)
  }

  /** @throws CllmError `invalid_request` with the template's own words when it refuses */
  render(messages: readonly ChatMessage[], options: ChatRenderOptions = {}): RenderedTemplate {
    const { addGenerationPrompt = true, variables = {} } = options
    const hidden = this.#guard.hide({ variables, messages })
    const marked = this.#render({
      ...hidden.value.variables,
      messages: hidden.value.messages,
      add_generation_prompt: addGenerationPrompt,
      bos_token: this.#vocabulary.bosText,
      eos_token: this.#vocabulary.eosText,
    })
    return {
      text: this.#guard.restore(marked, hidden),
      tokens: this.#guard.tokenize(marked, hidden),
    }
  }

  #render(context: Record<string, unknown>): string {
    try {
      return this.#template.render(context)
    } catch (cause) {
      throw new CllmError(
        'invalid_request',
        `the model's chat template refuses these messages: ${messageOf(cause)}`,
        { cause, details: { field: 'messages' } },
      )
    }
  }
}

function compileOverride(source: string): Template {
  try {
    return new Template(source)
  } catch (cause) {
    throw new CllmError(
      'invalid_configuration',
      `chatTemplate is not a valid Jinja template: ${messageOf(cause)}`,
      { cause, details: { field: 'chatTemplate' } },
    )
  }
}

function compileOwn(source: string | undefined, logger: Logger): Template {
  let reason = 'has no chat template'
  try {
    if (source !== undefined) return new Template(source)
  } catch (cause) {
    reason = `has a chat template that cannot be read (${messageOf(cause)})`
  }
  logger.warn({ template: 'chatml' }, `the model ${reason}: using ChatML for conversations`)
  return new Template(chatMl)
}

function messageOf(value: unknown): string {
  return value instanceof Error ? value.message : String(value)
}
