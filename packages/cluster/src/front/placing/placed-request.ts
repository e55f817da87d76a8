import { createHash } from 'node:crypto'
import { defaultMaxTokens } from '@cllm/core'
import type { Clock, CllmError, GenerateRequest, Prompt } from '@cllm/core'
import { InFlightRequest } from '@cllm/host'
import { blocksOfText, blocksOfTokens, type RequestToPlace } from '@cllm/scheduler'
import type { NamedChannel } from '../../link/link.js'
import type { FromWorker, ToWorker, WorkerRecord } from '../../messages.js'

/** A worker to which this front sends requests. */
export interface LinkedWorker {
  readonly record: WorkerRecord
  readonly link: NamedChannel<ToWorker, FromWorker>
  /** @internal The requests in progress that it has of this front, by the numbers of their placements. */
  readonly requests: Map<number, PlacedRequest>
}

/** Where a request is, or was when it ended. */
export interface Whereabouts extends Pick<PlacedRequest, 'placement' | 'moves'> {
  readonly worker: string | undefined
}

/** A request of a front. */
export class PlacedRequest extends InFlightRequest {
  /** The worker that has it, and the number of its placement there; messages about earlier placements are ignored. */
  member: LinkedWorker | undefined
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

  /** Where it is now. */
  get whereabouts(): Whereabouts {
    const { member, placement, moves } = this
    return { worker: member?.record.id, placement, moves }
  }

  /** The request as a router sees it. */
  get routed(): RequestToPlace {
    const { id, request } = this
    const { tenant = '', session, priority = 0, maxTokens = defaultMaxTokens } = request
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
