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

const lastEnded = 1000

/** What is kept of a request that has ended: not its prompt, which may be long. */
export type EndedRequest = Readonly<Pick<PlacedRequest, 'id' | 'worker' | 'placement' | 'moves'>>

/** The requests of a front: those under way, by their ids and by their placements, and the last that ended. */
export class PlacedRequests extends Map<string, PlacedRequest> {
  /** By their placements. */
  readonly #placed = new Map<number, PlacedRequest>()
  readonly #ended = new Map<string, EndedRequest>()

  /** Those under way on a worker. */
  on(worker: string): PlacedRequest[] {
    return [...this.values()].filter((placed) => placed.worker === worker)
  }

  /** One that is under way, or one of the last that ended. */
  find(id: string): EndedRequest | undefined {
    return this.get(id) ?? this.#ended.get(id)
  }

  /** The one that a worker means. What an earlier worker still says is not heard. */
  heard(worker: string, placement: number): PlacedRequest | undefined {
    const placed = this.#placed.get(placement)
    return placed?.worker === worker ? placed : undefined
  }

  /** It goes to a worker, by a placement that no other request has or had. */
  place(placed: PlacedRequest, worker: string, placement: number): void {
    placed.worker = worker
    placed.placement = placement
    this.#placed.set(placement, placed)
  }

  /** It is on no worker any more. */
  release(placed: PlacedRequest): void {
    if (placed.placement !== undefined) this.#placed.delete(placed.placement)
    placed.worker = undefined
    placed.placement = undefined
  }

  /** It has ended, and is remembered for a while. */
  remove({ id, worker, placement, moves }: PlacedRequest): void {
    if (placement !== undefined) this.#placed.delete(placement)
    if (!this.delete(id)) return
    this.#ended.set(id, { id, worker, placement, moves })
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > lastEnded && oldest !== undefined) this.#ended.delete(oldest)
  }
}
