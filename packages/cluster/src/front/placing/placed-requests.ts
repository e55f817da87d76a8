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
  /** The worker that has it, and the number of its placement there; messages about earlier placements are ignored. */
  worker: string | undefined
  placement: number | undefined
  /** How often it has moved to another worker. */
  moves = 0
  /** Whether an engine died while it ran the request. */
  hasCrashed = false
  /** The worker that generated its last token. */
  drawnBy: WorkerRecord | undefined
  /** The slot size of the largest worker that has refused it as too long; 0: none has. */
  refusedContext = 0
  /** The error of that refusal. */
  refusal: CllmError | undefined
  /** The length of its text if the prompt is only text, otherwise 0. */
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

  /** The number of its prompt's tokens; an estimate unless the prompt is given as tokens. */
  get promptTokens(): number {
    return this.#prompt.promptTokens
  }

  /** The request as a router sees it. */
  get routed(): RequestToPlace {
    const { id, request } = this
    const { tenant = '', session, priority = 0, maxTokens = 100 } = request
    return { id, tenant, session, priority, maxTokens, moves: this.moves, ...this.#prompt }
  }
}

/**
 * The text of a prompt, and where its files end in it. A continued conversation begins with the same text. A file's
 * data is replaced by a short digest, as a file has few tokens.
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

/** A digest that is padded to about as many tokens as a small image has. */
const standIn = (data: unknown): string =>
  createHash('sha1').update(String(data)).digest('hex').padEnd(1024)

const lastEnded = 1000

/** The record of an ended request, without its prompt, which may be long. */
export type EndedRequest = Readonly<Pick<PlacedRequest, 'id' | 'worker' | 'placement' | 'moves'>>

/** The requests of a front: those in progress, by id and by placement, and the last ended ones. */
export class PlacedRequests extends Map<string, PlacedRequest> {
  /** Requests in progress by placement. */
  readonly #placed = new Map<number, PlacedRequest>()
  readonly #ended = new Map<string, EndedRequest>()

  /** The requests in progress on a worker. */
  on(worker: string): PlacedRequest[] {
    return [...this.values()].filter((placed) => placed.worker === worker)
  }

  /** A request in progress, or one of the last ended ones. */
  find(id: string): EndedRequest | undefined {
    return this.get(id) ?? this.#ended.get(id)
  }

  /** The request that a worker's message is about; undefined if the worker no longer has it. */
  heard(worker: string, placement: number): PlacedRequest | undefined {
    const placed = this.#placed.get(placement)
    return placed?.worker === worker ? placed : undefined
  }

  /** Notes that a request goes to a worker, with a placement number that is never used twice. */
  place(placed: PlacedRequest, worker: string, placement: number): void {
    placed.worker = worker
    placed.placement = placement
    this.#placed.set(placement, placed)
  }

  /** Notes that a request is no longer on a worker. */
  release(placed: PlacedRequest): void {
    if (placed.placement !== undefined) this.#placed.delete(placed.placement)
    placed.worker = undefined
    placed.placement = undefined
  }

  /** Removes an ended request, whose record is kept for a while. */
  remove({ id, worker, placement, moves }: PlacedRequest): void {
    if (placement !== undefined) this.#placed.delete(placement)
    if (!this.delete(id)) return
    setLatest(this.#ended, id, { id, worker, placement, moves }, lastEnded)
  }
}
