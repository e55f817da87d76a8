import { type RoutedRequest, type WorkerView, nextNumber } from '@cllm/core'

/** Numbers that look random and are the same each time. */
export class Draw {
  constructor(private state: number) {}

  /** A whole number from 0 to below `limit`. */
  below(limit: number): number {
    this.state = nextNumber(this.state)
    return Math.floor((this.state / 2 ** 32) * limit)
  }
}

/** A worker of a test; its views are plain frozen data. */
interface TestWorker {
  readonly id: string
  open: number
  backlog: number
  files: number
  placedAt: number
  readonly prompts: Set<number>
}

/** What is the same of all of them. */
const same = { ageMs: 0, fronts: 1, unseen: 0, slots: 4, tokenMs: 1, stepMs: 10 }
const { tokenMs, stepMs } = same
const fileMs = 1000
const blockTokens = 16

/**
 * Workers that serve nothing and only count: a request's prompt is a backlog that shrinks with time, and
 * ends with it.
 */
export class SimulatedWorkers {
  now = 0
  readonly #workers: TestWorker[] = []
  #next = 0

  constructor(count: number) {
    for (let index = 0; index < count; index++) this.add()
  }

  get ids(): string[] {
    return this.#workers.map(({ id }) => id)
  }

  /** A worker comes. */
  add(): void {
    const id = `worker-${String(this.#next++).padStart(4, '0')}`
    const idle = { open: 0, backlog: 0, files: 0, placedAt: -Infinity, prompts: new Set<number>() }
    this.#workers.push({ id, ...idle })
  }

  /** A worker goes, but never the last one. */
  remove(index: number): void {
    if (this.#workers.length > 1) this.#workers.splice(index, 1)
  }

  /** Makes a worker as busy as this many requests, and lets so many files wait on it. */
  burden(index: number, requests: number, files = 0): void {
    const worker = this.#workers[index]!
    worker.files += files
    worker.open += requests
    worker.backlog += requests * 1000
  }

  /** Time goes on, and the workers compute. */
  advance(ms: number): void {
    this.now += ms
    for (const worker of this.#workers) {
      const before = worker.backlog
      worker.backlog = Math.max(0, before - ms / tokenMs)
      worker.files = Math.max(0, worker.files - ms / fileMs)
      worker.open = worker.backlog === 0 ? 0 : Math.ceil((worker.open * worker.backlog) / before)
    }
  }

  /** The views of all workers, for this request. */
  views(request: RoutedRequest): readonly WorkerView[] {
    return Object.freeze(
      this.#workers.map(({ id, open, backlog, files, placedAt, prompts }) => {
        const held = request.blocks.findLastIndex((block) => prompts.has(block)) + 1
        const cachedTokens = Math.min(request.promptTokens, held * blockTokens)
        const own = request.files.filter((end) => end > cachedTokens).length
        const waitMs = Math.max(backlog * tokenMs, own === 0 ? 0 : (files + own) * fileMs)
        return Object.freeze({
          ...same,
          id,
          open,
          openTokens: backlog,
          backlogTokens: backlog,
          backlogFiles: Math.ceil(files),
          waitMs,
          cachedTokens,
          firstTokenMs: waitMs + (request.promptTokens - cachedTokens) * tokenMs + stepMs,
          placedAt,
        })
      }),
    )
  }

  /** The request is placed there. */
  place(id: string, request: RoutedRequest): void {
    const worker = this.#workers.find((one) => one.id === id)!
    worker.open++
    worker.backlog += request.promptTokens
    worker.files += request.files.length
    worker.placedAt = this.now
    for (const block of request.blocks) worker.prompts.add(block)
  }
}

/** Every so many requests, one has an image at its end. */
export const filesEvery = 4

/** A request of a made-up load: some share their beginning, their session or their tenant. */
export function drawRequest(draw: Draw, index: number): RoutedRequest {
  const blocks = draw.below(40)
  const group = draw.below(8)
  const shared = draw.below(blocks + 1)
  const promptTokens = blocks * blockTokens + draw.below(blockTokens) + 1
  return Object.freeze({
    id: `request-${index}`,
    tenant: ['', 'a', 'b', 'c'][draw.below(4)]!,
    session: draw.below(2) === 0 ? undefined : `session-${draw.below(10)}`,
    priority: draw.below(3) - 1,
    promptTokens,
    files: index % filesEvery === 0 ? [promptTokens] : [],
    maxTokens: 1 + draw.below(500),
    blocks: Object.freeze(
      Array.from({ length: blocks }, (_, at) =>
        at < shared ? group * 1000 + at : 1e6 + index * 1000 + at,
      ),
    ),
    moves: draw.below(10) === 0 ? 1 : 0,
  })
}
