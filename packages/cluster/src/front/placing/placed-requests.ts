import { createHash } from 'node:crypto'
import {
  type Clock,
  type CllmError,
  type GenerateRequest,
  type Prompt,
  setLatest,
} from '@cllm/core'
import { InFlightRequest } from '@cllm/host'
import { blocksOfText, blocksOfTokens, type RequestToPlace } from '@cllm/scheduler'
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
  /** Tokens per slot of the largest worker that has refused it as too long; 0: none has. */
  refusedContext = 0
  /** What that one said. */
  refusal: CllmError | undefined
  /** Of its text, where that alone is its prompt. */
  readonly characters: number
  readonly #prompt: Pick<RequestToPlace, 'blocks' | 'blockTokens' | 'files' | 'promptTokens'>

  constructor(id: string, request: GenerateRequest, tokensPerCharacter: number, clock: Clock) {
    super(id, { ...request, id }, clock.now())
    const { prompt, tenant = '' } = request
    if ('tokens' in prompt) {
      const { tokens, media = [] } = prompt
      const files = media.map(({ at }) => at + 1)
      this.#prompt = { promptTokens: tokens.length, files, ...blocksOfTokens(tokens, tenant) }
      this.characters = 0
    } else {
      const [text, ends] = textOf(prompt)
      const files = ends.map((end) => end * tokensPerCharacter)
      const promptTokens = Math.ceil(text.length * tokensPerCharacter)
      this.#prompt = { promptTokens, files, ...blocksOfText(text, tokensPerCharacter, tenant) }
      this.characters = files.length === 0 ? text.length : 0
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

/**
 * The text of a prompt, and where its files end in it: conversations that go on begin with the same one. In place of
 * a file's data there is a short text of it, as it has few tokens.
 */
function textOf(prompt: Exclude<Prompt, { tokens: unknown }>): [text: string, ends: number[]] {
  const ends: number[] = []
  if ('text' in prompt) {
    let [text, from] = ['', 0]
    for (const { at, data } of prompt.media ?? []) {
      text += prompt.text.slice(from, at) + standIn(data)
      from = at
      ends.push(text.length)
    }
    return [text + prompt.text.slice(from), ends]
  }
  let text = JSON.stringify(prompt.template ?? null)
  for (const message of prompt.messages) {
    const media = message?.media?.map((file) => ({ ...file, data: standIn(file?.data) }))
    text += `${JSON.stringify({ ...message, media })},`
    for (const _ of media ?? []) ends.push(text.length)
  }
  return [text, ends]
}

/** As long as what a small image is for a model. */
const standIn = (data: unknown): string =>
  createHash('sha1').update(String(data)).digest('hex').padEnd(1024)

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
    setLatest(this.#ended, id, { id, worker, placement, moves }, lastEnded)
  }
}
