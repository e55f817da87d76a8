import type { Clock, GenerateRequest } from '@cllm/core'
import { InFlightRequest } from '@cllm/host'
import {
  blocksOfText,
  blocksOfTokens,
  type PromptBlocks,
  type RequestToPlace,
} from '@cllm/scheduler'
import type { WorkerRecord } from '../../messages.js'

/** A request of a front. */
export class PlacedRequest extends InFlightRequest {
  /** The worker that has it, and the number of its placement there: what is said of earlier ones is not heard. */
  worker: string | undefined
  placement: number | undefined
  /** How often it went on at another worker. */
  moves = 0
  /** Whether an engine died while it drew its tokens. */
  hasCrashed = false
  /** The worker that drew its tokens last. */
  drawnBy: WorkerRecord | undefined
  readonly characters: number
  readonly #prompt: PromptBlocks & { readonly promptTokens: number }

  constructor(id: string, request: GenerateRequest, tokensPerCharacter: number, clock: Clock) {
    super(id, { ...request, id }, clock.now())
    const { prompt, tenant = '' } = request
    const text = textOf(request)
    this.characters = text?.length ?? 0
    this.#prompt =
      'tokens' in prompt
        ? { promptTokens: prompt.tokens.length, ...blocksOfTokens(prompt.tokens, tenant) }
        : {
            promptTokens: Math.ceil(this.characters * tokensPerCharacter),
            ...blocksOfText(text ?? '', tokensPerCharacter, tenant),
          }
  }

  /** Tokens of its prompt, estimated where only its text is known. */
  get promptTokens(): number {
    return this.#prompt.promptTokens
  }

  /** As a router sees it. */
  get routed(): RequestToPlace {
    const { id, request } = this
    const { tenant = '', session, priority = 0, maxTokens = 100 } = request
    return { id, tenant, session, priority, maxTokens, moves: this.moves, ...this.#prompt }
  }
}

/** The text of a prompt: conversations that go on begin with the same one. */
function textOf({ prompt }: GenerateRequest): string | undefined {
  if ('text' in prompt) return prompt.text
  if (!('messages' in prompt)) return undefined
  const { messages, template } = prompt
  return `${JSON.stringify(template ?? null)}${messages.map((one) => JSON.stringify(one)).join()}`
}
