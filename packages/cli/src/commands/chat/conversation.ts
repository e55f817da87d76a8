import { CllmError } from '@cllm/core'
import { answerLimit } from '@cllm/web'
import type { ServerClient } from '../server/server-client.js'
import { type AnswerPart, type Message, streamAnswer } from './chat-stream.js'

/** What `/set` changes. */
export interface ChatSettings {
  system: string | undefined
  /** Fields of `POST /v1/chat/completions`, such as `temperature`. */
  parameters: Record<string, unknown>
  /** Whether the model thinks; undefined: as its template does by default. */
  think: boolean | undefined
  /** Whether earlier messages are sent along. */
  history: boolean
  /** Whether figures follow each answer. */
  verbose: boolean
}

/** The settings that a conversation starts with. */
const initialSettings = (): ChatSettings => ({
  system: undefined,
  parameters: {},
  think: undefined,
  history: true,
  verbose: false,
})

/** What a conversation is kept as by `/save`. */
export interface SavedConversation {
  readonly model: string
  readonly settings: ChatSettings
  readonly messages: readonly Message[]
}

/** A conversation with a model: its messages and settings. */
export class Conversation {
  readonly settings: ChatSettings
  #messages: Message[] = []

  constructor(
    private readonly client: ServerClient,
    readonly model: string,
    settings: Partial<ChatSettings> = {},
  ) {
    this.settings = { ...initialSettings(), ...settings }
  }

  /** The messages so far, without the system message. */
  get messages(): readonly Message[] {
    return this.#messages
  }

  /** Forgets the messages. */
  clear(): void {
    this.#messages = []
  }

  /** As `/save` writes it. */
  saved(): SavedConversation {
    return { model: this.model, settings: this.settings, messages: this.#messages }
  }

  /** Goes on with a conversation that was saved. */
  restore({ settings, messages }: Omit<SavedConversation, 'model'>): void {
    Object.assign(this.settings, settings)
    this.#messages = [...messages]
  }

  /**
   * Asks, and yields the answer. What the model wrote stays in the conversation, also when it is
   * stopped. When the conversation is longer than a slot, its oldest messages are left out.
   *
   * @throws CllmError the server's error; the question then does not stay in the conversation
   */
  async *ask(content: string, signal: AbortSignal): AsyncGenerator<AnswerPart> {
    const question: Message = { role: 'user', content }
    const { history } = this.settings
    const before = this.#messages
    let earlier = history ? before : []
    let answer = ''
    try {
      for (;;) {
        try {
          for await (const part of this.#stream([...earlier, question], signal)) {
            if (part.type === 'text') answer += part.text
            yield part
          }
          break
        } catch (error) {
          if (!isTooLong(error) || earlier.length === 0) throw error
          earlier = earlier.slice(2)
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
    if (answer === '' && signal.aborted) return
    const exchange: readonly Message[] = [question, { role: 'assistant', content: answer }]
    this.#messages = [...(history ? earlier : before), ...exchange]
  }

  #stream(messages: readonly Message[], signal: AbortSignal): AsyncGenerator<AnswerPart> {
    const { system, parameters, think } = this.settings
    const first: readonly Message[] =
      system === undefined ? [] : [{ role: 'system', content: system }]
    const limit = answerLimit(this.model)
    const body = {
      model: this.model,
      messages: [...first, ...messages],
      ...(limit === undefined ? {} : { max_tokens: limit }),
      ...parameters,
      ...(think === undefined
        ? {}
        : { chat_template_kwargs: { enable_thinking: think, thinking: think } }),
    }
    return streamAnswer(this.client, body, signal)
  }
}

const isTooLong = (error: unknown): boolean =>
  CllmError.isInstance(error) && error.code === 'prompt_too_long'
