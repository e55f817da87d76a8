import { CllmError, defined } from '@cllm/core'
import { answerLimit } from '@cllm/web'
import type { ServerClient } from '../server/server-client.js'
import {
  type MediaPart,
  type AnswerPart,
  type Message,
  streamAnswer,
  type ToolCall,
} from './chat-stream.js'

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

/** Tools that a model may call. */
export interface Tools {
  /** In OpenAI's form. */
  readonly offered: readonly object[]
  /** Runs a call, and resolves with the result for the model. */
  readonly run: (call: ToolCall['function'], signal: AbortSignal) => Promise<string>
}

/** A conversation as `/save` writes it. */
export interface SavedConversation {
  readonly model: string
  readonly settings: ChatSettings
  readonly messages: readonly Message[]
}

/** A conversation with a model: its messages and settings. */
export class Conversation {
  readonly settings: ChatSettings
  #messages: Message[] = []
  #attached: readonly MediaPart[] = []
  #tools: Tools | undefined

  constructor(
    private readonly client: ServerClient,
    readonly model: string,
    settings: Partial<ChatSettings> = {},
  ) {
    const initial = { system: undefined, parameters: {}, think: undefined }
    this.settings = { ...initial, history: true, verbose: false, ...settings }
  }

  /** The messages so far, without the system message. */
  get messages(): readonly Message[] {
    return this.#messages
  }

  /** Offers tools from now on. */
  offer(tools: Tools): void {
    this.#tools = tools
  }

  /** Puts an image or a sound before the next question. */
  attach(...media: readonly MediaPart[]): void {
    this.#attached = [...this.#attached, ...media]
  }

  /** Whether an image or a sound waits for the next question. */
  get hasMedia(): boolean {
    return this.#attached.length > 0
  }

  /** Forgets the messages. */
  clear(): void {
    this.#messages = []
    this.#attached = []
  }

  /** The conversation as `/save` writes it. */
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
   * @throws CllmError the server's error; the question then does not stay in the conversation, and its images and
   *   sounds wait for the next one, unless the model takes none
   */
  async *ask(text: string, signal: AbortSignal): AsyncGenerator<AnswerPart> {
    const attached = this.#attached
    const content = attached.length === 0 ? text : [...attached, { type: 'text', text }]
    const question: Message = { role: 'user', content }
    const { history } = this.settings
    const before = this.#messages
    let earlier = history ? before : []
    let answer = ''
    const exchange: Message[] = [question]
    try {
      for (;;) {
        const calls: ToolCall[] = []
        try {
          for await (const part of this.#stream([...earlier, ...exchange], signal)) {
            if (part.type === 'text') answer += part.text
            if (part.type === 'call') calls.push(part.call)
            yield part
          }
        } catch (error) {
          const isTooLong = CllmError.isInstance(error) && error.code === 'prompt_too_long'
          if (!isTooLong || earlier.length === 0) throw error
          const next = earlier.findIndex(({ role }, index) => index > 0 && role === 'user')
          earlier = next === -1 ? [] : earlier.slice(next)
          continue
        }
        if (calls.length === 0 || this.#tools === undefined) break
        exchange.push({ role: 'assistant', content: answer, tool_calls: calls })
        answer = ''
        for (const call of calls) {
          const result = await this.#tools.run(call.function, signal)
          exchange.push({ role: 'tool', tool_call_id: call.id, content: result })
        }
      }
    } catch (error) {
      // The model would refuse the same images and sounds again.
      if (CllmError.isInstance(error) && error.code === 'unsupported') this.#attached = []
      if (!signal.aborted) throw error
    }
    if (answer === '' && signal.aborted) return
    exchange.push({ role: 'assistant', content: answer })
    this.#attached = []
    this.#messages = [...(history ? earlier : before), ...exchange]
  }

  #stream(messages: readonly Message[], signal: AbortSignal): AsyncGenerator<AnswerPart> {
    const { system, parameters, think } = this.settings
    const first: Message[] = system === undefined ? [] : [{ role: 'system', content: system }]
    const thinking = think === undefined ? undefined : { enable_thinking: think, thinking: think }
    const body = {
      model: this.model,
      messages: [...first, ...messages],
      ...defined({ max_tokens: answerLimit(this.model), tools: this.#tools?.offered }),
      ...parameters,
      ...defined({ chat_template_kwargs: thinking }),
    }
    return streamAnswer(this.client, body, signal)
  }
}
