import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { CllmError, defined } from '@cllm/core'
import type { AnswerChunk, AnswerUsage } from '@cllm/web'
import { errorOf, type ServerClient } from '../server/server-client.js'
import { reasonOf } from '../../config/messages.js'

/** A message of a conversation. */
export interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  /** A text, or images and sounds with a text behind them. */
  readonly content: string | readonly MediaPart[]
  readonly tool_calls?: readonly ToolCall[]
  readonly tool_call_id?: string
}

/** A call of a tool that a model made. */
export interface ToolCall {
  readonly id: string
  readonly type: 'function'
  /** `arguments` is JSON. */
  readonly function: { name: string; arguments: string }
}

const newCall = (id: string): ToolCall => {
  return { id, type: 'function', function: { name: '', arguments: '' } }
}

/** The end of an answer, as the server reports it. */
export interface AnswerEnd {
  readonly type: 'end'
  /** Such as `stop` or `length`. */
  readonly reason: string
  readonly usage: AnswerUsage
  /** Default: not known. */
  readonly timings?: AnswerChunk['timings']
}

/** A piece of an answer; `thinking` is the model's reasoning. */
export type AnswerPart =
  | { readonly type: 'text' | 'thinking'; readonly text: string }
  | { readonly type: 'call'; readonly call: ToolCall }
  | AnswerEnd

/**
 * Streams an answer from `POST /v1/chat/completions`; the last part is its end.
 *
 * @param body - the fields of the request
 *
 * @throws CllmError the server's error, and the signal's reason when it is aborted
 */
export async function* streamAnswer(
  client: ServerClient,
  body: { readonly model: string; readonly messages: readonly Message[] },
  signal: AbortSignal,
): AsyncGenerator<AnswerPart> {
  const asked = { ...body, stream: true, stream_options: { include_usage: true } }
  let reason = 'stop'
  const calls: ToolCall[] = []
  for await (const event of client.events('/v1/chat/completions', asked, signal)) {
    const { choices = [], usage, timings, error } = event as AnswerChunk
    if (error !== undefined) throw errorOf(streamFailure, JSON.stringify(event))
    const [choice] = choices
    const { delta = {} } = choice ?? {}
    const [content, thinking] = [delta.content ?? '', delta.reasoning_content ?? '']
    if (thinking !== '') yield { type: 'thinking', text: thinking }
    if (content !== '') yield { type: 'text', text: content }
    for (const { index, id = '', function: more = {} } of delta.tool_calls ?? []) {
      const call = (calls[index] ??= newCall(id))
      call.function.name += more.name ?? ''
      call.function.arguments += more.arguments ?? ''
    }
    reason = choice?.finish_reason ?? reason
    if (usage === undefined || usage === null) continue
    for (const call of calls) yield { type: 'call', call }
    yield { type: 'end', reason, usage, ...defined({ timings }) }
  }
}

/** Stands for the response when an error comes in the middle of a stream. */
const streamFailure = { status: 500, statusText: 'the answer ended with an error' }

/** A part of a message of `POST /v1/chat/completions`. */
export interface MediaPart {
  readonly type: string
  readonly [field: string]: unknown
}

const images = ['.png', '.jpg', '.jpeg', '.webp', '.gif', '.bmp']
const sounds = ['.wav', '.mp3', '.flac']

/**
 * Reads an image or a sound for a message. Its kind follows from the file's name; the server checks the content.
 *
 * @throws CllmError `invalid_request` for a file of another kind, or one that cannot be read
 */
export async function readMedia(file: string): Promise<MediaPart> {
  const ending = extname(file).toLowerCase()
  const isImage = images.includes(ending)
  if (!isImage && !sounds.includes(ending)) {
    const known = [...images, ...sounds].join(', ')
    throw new CllmError('invalid_request', `${file}: expected a name that ends in ${known}`)
  }
  const bytes = await readFile(file).catch((cause: Error) => {
    const message = `${file}: expected an image or a sound, but ${reasonOf(cause)}`
    throw new CllmError('invalid_request', message, { cause })
  })
  const data = bytes.toString('base64')
  return isImage
    ? { type: 'image_url', image_url: { url: `data:image/${ending.slice(1)};base64,${data}` } }
    : { type: 'input_audio', input_audio: { data, format: ending.slice(1) } }
}
