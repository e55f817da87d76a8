import type { Prompt, RequestReports } from '../../contracts/engine/generate-request.js'
import type { Clock } from '../../contracts/services.js'
import type { EncodedMedia, MediaSpan } from '../../contracts/model/model-info.js'
import { mediaPlace, type PromptMedia, type TokenId } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { minimumWait } from '../kv/block-chain.js'
import { invalidField, unsupported } from './check-request.js'
import type { Encoding } from '../requests/sequence.js'
import type { EncodeLane, EncodeOwner } from './encode-lane.js'
import { checkLength, resolvePrompt, type PromptContext } from './resolve-prompt.js'

/** The tokens of a prompt with images or sounds, and the spans that have vectors in place of tokens. */
export interface MixedPrompt {
  readonly tokens: TokenId[]
  readonly media: readonly MediaSpan[]
  /** The encoding in progress; undefined: all files are encoded. */
  readonly encoding: Pick<Encoding, 'from' | 'done'> | undefined
  /** Milliseconds that its own files were being encoded, and that they waited for files of others. */
  readonly waited: Readonly<Record<'encode' | 'encoder', number>>
}

/** What {@link resolveMedia} needs. */
export interface MediaContext extends PromptContext {
  readonly clock: Clock
  readonly lane: Pick<EncodeLane, 'encode' | 'waited' | 'leftMs'>
}

/** Whether a prompt has images or sounds. */
export function hasMedia(prompt: Prompt): boolean {
  if (typeof prompt !== 'object' || prompt === null) return false
  if (!('messages' in prompt)) return (prompt.media?.length ?? 0) > 0
  const { messages } = prompt
  return Array.isArray(messages) && messages.some((message) => (message?.media?.length ?? 0) > 0)
}

/**
 * Refuses features that do not work with images.
 * @throws CllmError `unsupported`
 */
export function checkMixed({ promptLogprobs }: RequestReports, shifts: boolean): void {
  if (promptLogprobs !== undefined) {
    throw unsupported('promptLogprobs', 'media', 'it is not known for prompts with images')
  }
  if (shifts) {
    throw unsupported('contextShift', 'media', 'a prompt with images cannot lose a part of it')
  }
}

/**
 * Tokenizes a prompt with images or sounds, and has these encoded in their turn. A request with much text before the last
 * new file is complete before that is encoded.
 *
 * @throws CllmError the encoder's errors, `prompt_too_long`, `wait_too_long`, and the reason of the owner's signal
 */
export async function resolveMedia(
  prompt: Prompt,
  context: MediaContext,
  owner: Omit<EncodeOwner, 'encodeMs' | 'since' | 'isQueued'>,
): Promise<MixedPrompt> {
  const ensureWanted = () => owner.signal.throwIfAborted()
  const files = 'messages' in prompt ? prompt.messages.flatMap(filesOf) : (prompt.media ?? [])
  for (const file of files) {
    const isKnown = file?.type === 'image' || file?.type === 'audio'
    const isFile = isKnown && typeof file.data === 'string' && Number.isInteger(file.at)
    if (!isFile) throw invalidField('prompt.media', 'objects with type, at and data', file)
  }
  // Each file has at least one token, so a prompt that is too long with placeholders is too long in any case.
  const places = await resolvePrompt(prompt, context, ensureWanted, files)
  const shown = places.filter((token) => token === mediaPlace).length
  if (shown !== files.length) {
    const message = `messages: the model's chat template shows ${shown} of ${files.length} images or sounds`
    throw new CllmError('invalid_request', message, { details: { field: 'messages' } })
  }
  const since = context.clock.now()
  const own: EncodeOwner = { ...owner, since, encodeMs: 0, isQueued: false }
  const join = (encoded: readonly (EncodedMedia | undefined)[]) => {
    const tokens: TokenId[] = []
    const media: MediaSpan[] = []
    let nth = 0
    for (const token of places) {
      if (token !== mediaPlace) {
        tokens.push(token)
        continue
      }
      const image = encoded[nth]
      const { otherwise = '' } = files[nth++]!
      if (image === undefined) {
        tokens.push(...context.tokenizer.encode(otherwise, { addBos: false }))
        continue
      }
      for (const span of image.spans) media.push({ ...span, start: tokens.length + span.start })
      for (const each of image.tokens) tokens.push(each)
    }
    return { tokens, media }
  }
  let all!: ReturnType<EncodeLane['encode']>
  const counted = new Promise<Awaited<typeof all>>((resolve) => {
    all = context.parts.during(context.lane.encode(files, own, resolve))
  })
  let read = join(await Promise.race([counted, all]))
  const from = read.media.find(({ vectors }) => vectors.length === 0)?.start ?? 0
  own.isQueued = owner.id !== '' && from >= minimumWait
  const encoding = own.isQueued ? { from, done: all.then((each) => join(each).media) } : undefined
  // The request may be refused.
  encoding?.done.catch(() => {})
  if (encoding === undefined) read = join(await all)
  ensureWanted()
  const waited = context.lane.waited(own)
  const { tokens, media } = read
  if (mediaEnd(media) === tokens.length) {
    throw invalidField('prompt', 'a text behind the last image', 'an image')
  }
  return { tokens: checkLength(tokens, context), media, encoding, waited }
}

const filesOf = ({ media }: { readonly media?: readonly PromptMedia[] }) => media ?? []

/** The index behind the last vector. */
export function mediaEnd(media: readonly MediaSpan[] = []): number {
  const last = media.at(-1)
  return last === undefined ? 0 : last.start + last.length
}

/**
 * Where a chunk must end. An image that has to be computed as a whole is not cut: the chunk ends before or behind it.
 * Beside other requests a chunk also ends where text and vectors meet: these are separate passes, and the other requests
 * would wait for both.
 */
export function chunkEnd(
  media: readonly MediaSpan[],
  first: number,
  end: number,
  isAlone: boolean,
): number {
  for (const { start, length, shape } of media) {
    const behind = start + length
    if (!isAlone && first < start && start < end) return start
    if (!isAlone && first < behind && behind < end) return behind
    const isWithin = shape?.isWhole === true && start < end && end < behind
    if (isWithin) return start > first ? start : behind
  }
  return end
}

/** The spans with vectors among the tokens from `first` to `end`, relative to `first`; empty object: none. */
export function mediaWithin(
  media: readonly MediaSpan[],
  first: number,
  end: number,
): { readonly media?: readonly MediaSpan[] } {
  const within: MediaSpan[] = []
  for (const { start, length, vectors, shape } of media) {
    const [from, to] = [Math.max(first, start), Math.min(end, start + length)]
    if (from >= to) continue
    const width = vectors.length / length
    const part = vectors.subarray((from - start) * width, (to - start) * width)
    within.push({
      start: from - first,
      length: to - from,
      vectors: part,
      ...(shape !== undefined && { shape: { ...shape, skipped: from - start } }),
    })
  }
  return within.length === 0 ? {} : { media: within }
}
