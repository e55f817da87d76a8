import {
  type ChatMessage,
  CllmError,
  type EngineClient,
  type EngineDirectory,
  type GenerateEvent,
  type GenerateRequest,
  type PromptMedia,
} from '@cllm/core'
import { overriding, unlessAborted } from '@cllm/host'
import type { BodyBudget, CountedBody } from '../body/body-budget.js'
import { expectedField, unsupported } from '../request/refusals.js'
import type { MediaFetcher } from '../security/media-fetcher.js'
import { wrapEngines } from './watch-engines.js'

/** The most files that a request may name by URL. */
const mostFiles = 32

/** A message or prompt that may contain media. */
interface Shown {
  readonly media?: readonly PromptMedia[]
}

/** Whether a file is given by URL, and not contained in the request. */
export const isUrl = (data: string): boolean => /^https?:\/\//i.test(data)

const hasUrls = ({ media }: Shown): boolean => media?.some(({ data }) => isUrl(data)) === true

/**
 * Wraps engines so that images and sounds that a request names by URL are fetched. Each file is fetched once per
 * request, even if its prompt is read repeatedly, and counts towards the limit for all bodies.
 *
 * @param fetcher - undefined: URLs are refused; in earlier messages they are left out
 */
export const withMediaUrls = (
  directory: EngineDirectory,
  bodies: BodyBudget,
  fetcher: MediaFetcher | undefined,
): EngineDirectory =>
  wrapEngines(directory, (client, _, until) => {
    let files: MediaFiles | undefined
    const filesOf = () => (files ??= new MediaFiles(fetcher, bodies, until))
    return overriding(client, {
      submit(request, options) {
        const { prompt } = request
        const shown = 'messages' in prompt ? prompt.messages : [prompt]
        if (!shown.some(hasUrls)) return client.submit(request, options)
        const filled = async () => await filesOf().inRequest(request)
        return submitLater(client, filled, options)
      },
      async applyTemplate(messages, options) {
        const shown = messages.some(hasUrls) ? await filesOf().inMessages(messages) : messages
        return await client.applyTemplate(shown, options)
      },
    })
  })

async function* submitLater(
  client: EngineClient,
  filled: () => Promise<GenerateRequest>,
  options: Parameters<EngineClient['submit']>[1],
): AsyncGenerator<GenerateEvent, undefined> {
  yield* client.submit(await unlessAborted(filled(), options?.signal), options)
}

/** Leaves a file out, for a text in its place. Throws errors that are not the URL's fault, such as `queue_full`. */
function leftOut(error: unknown): string {
  if (CllmError.isInstance(error) && error.status < 429) return ''
  throw error
}

/** The files of one request. */
class MediaFiles {
  readonly #files = new Map<string, Promise<string>>()
  readonly #body: CountedBody = { left: new AbortController(), bodyBytes: 0 }

  constructor(
    private readonly fetcher: MediaFetcher | undefined,
    private readonly bodies: BodyBudget,
    private readonly until: AbortSignal | undefined,
  ) {
    const release = () => {
      this.#body.left.abort()
      bodies.release(this.#body.bodyBytes)
    }
    if (until?.aborted === true) this.#body.left.abort()
    else until?.addEventListener('abort', release, { once: true })
  }

  async inRequest(request: GenerateRequest): Promise<GenerateRequest> {
    const { prompt } = request
    if ('tokens' in prompt) return request
    if ('text' in prompt) return { ...request, prompt: await this.#in(prompt) }
    return { ...request, prompt: { ...prompt, messages: await this.inMessages(prompt.messages) } }
  }

  async inMessages(messages: readonly ChatMessage[]): Promise<readonly ChatMessage[]> {
    return await Promise.all(messages.map(async (message) => await this.#in(message)))
  }

  async #in<T extends Shown>(shown: T): Promise<T> {
    if (!hasUrls(shown)) return shown
    const media = await Promise.all(
      shown.media!.map(async (file) => {
        const data = this.#fetched(file)
        return { ...file, data: await (file.otherwise === undefined ? data : data.catch(leftOut)) }
      }),
    )
    return { ...shown, media }
  }

  async #fetched({ data: url, field = 'prompt' }: PromptMedia): Promise<string> {
    if (!isUrl(url)) return url
    if (this.fetcher === undefined) {
      throw unsupported(
        field,
        'no URL is fetched here: send the file in base64 (data:image/png;base64,…), or start the ' +
          'server with --media-urls HOST,… or --media-urls "*"',
      )
    }
    const known = this.#files.get(url)
    if (known !== undefined) return await known
    if (this.#files.size === mostFiles) throw expectedField(field, `at most ${mostFiles} URLs`)
    const count = (bytes: number) => {
      if (this.until !== undefined) this.bodies.count({ state: this.#body }, bytes)
    }
    const file = this.fetcher.fetch(url, field, this.until, count)
    this.#files.set(url, file)
    return await file
  }
}
