import { type ModelInfo, soundLength, type TokenLogprobs } from '@cllm/core'
import { z } from 'zod'
import { file, readForm } from '../../body/read-body.js'
import { collectAnswer, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import type { AnswerForm } from '../../chat/answer/create-answer-parser.js'
import { prepareChat } from '../../chat/prepare-chat.js'
import { integer, largest, number } from '../../fields/fields.js'
import { requestFor } from '../../request/build-request.js'
import { type EndEvent, type GenerationEvent, startGeneration } from '../../request/generation.js'
import { noMedia, unsupported } from '../../request/refusals.js'
import { logprobOf, sum } from '../../request/usage.js'
import { encoded, eventStream, Reply } from '../../routes/route.js'
import type { Answer, Call, Encoder } from '../../routes/route.js'
import { type OpenAiContext, openAiErrorBody } from './openai-answer.js'
import { deflateSync } from 'node:zlib'

/** The most bytes of a file with its form, as in OpenAI's API. */
const mostBytes = 25 * 1024 * 1024

/** The formats of a transcript. */
const transcriptFormats = ['json', 'text', 'verbose_json', 'srt', 'vtt'] as const

/** The form of these routes: a file and texts. */
export const transcriptionSchema = z.object({
  file,
  model: z.string('a name').optional(),
  language: z.string('a language').max(40, 'a language').optional(),
  prompt: z.string('a text').optional(),
  response_format: z
    .enum(transcriptFormats, `one of ${transcriptFormats.join(', ')}`)
    .default('json'),
  temperature: z.preprocess(Number, number(0, 2)).optional(),
  max_tokens: z.preprocess(Number, integer(1, largest)).optional(),
  stream: z.enum(['true', 'false'], 'true or false').optional(),
  chunking_strategy: z.literal('auto', 'auto').optional(),
  include: z.literal('logprobs', 'logprobs').optional(),
  timestamp_granularities: z.literal('segment', 'segment: the model tells no times').optional(),
  known_speaker_names: z.undefined('nothing: the model tells no speakers').optional(),
})

/** The default instructions for the model; `prompt` replaces them. */
const tasks = {
  transcribe: 'Transcribe audio to text',
  translate: 'Translate audio to English text',
} as const

/**
 * `POST /v1/audio/transcriptions` and `/translations`: transcribes speech with a chat model that takes sounds, as in
 * llama-server. Models like Whisper, which cannot chat, are not served.
 */
export const transcription =
  (task: keyof typeof tasks) =>
  async (call: Call, openAi: OpenAiContext): Promise<Answer> => {
    const fields = await readForm(call, transcriptionSchema, mostBytes)
    const { response_format: format, temperature, max_tokens: maxTokens, include } = fields
    const isStream = fields.stream === 'true'
    if (isStream && format !== 'json' && format !== 'text') {
      throw unsupported('stream', `${format} is not streamed: leave it out, or ask for json`)
    }
    const { client } = call.open(fields.model)
    const { model } = await client.info()
    if (model.audio !== true) throw noMedia('file', 'audio')
    const bytes = Buffer.from(await fields.file.arrayBuffer())
    const data = bytes.toString('base64')
    const { system, user } = wordsOf(task, model)
    const language = fields.language === undefined ? '' : ` (language: ${fields.language})`
    const content = (fields.prompt ?? user) + language
    const media = [{ type: 'audio', at: content.length, data, field: 'file' }] as const
    const chat = await prepareChat(client, {
      messages: [
        ...(system === '' ? [] : [{ role: 'system', content: system }]),
        { role: 'user', content, media },
      ],
      tools: [],
      template: {},
    })
    const defaults = openAi.defaults['/v1/audio/transcriptions']
    const logprobs = include !== undefined || format === 'verbose_json' ? 0 : undefined
    const settings = { temperature, maxTokens, marks: chat.marks, logprobs }
    const request = requestFor(client, chat.prompt, settings, defaults)
    const generation = await startGeneration(call, client, request)
    if (isStream) {
      return encoded(eventStream, generation.events, (write) => transcriptEvents(chat.form, write))
    }
    const answer = await collectAnswer(generation, chat.form)
    const transcript = {
      text: answer.content,
      task,
      language: task === 'translate' ? 'english' : fields.language,
      // only computed if the format shows it
      get seconds() {
        return soundLength(bytes) ?? 0
      },
      temperature: temperature ?? 0,
      logprobs: logprobs === undefined ? undefined : answer.logprobs,
      usage: tokensOf(answer.end),
    }
    return writeTranscript(transcript, format)
  }

/** The messages for the model. LFM2 was trained to transcribe with a system message. */
function wordsOf(task: keyof typeof tasks, { details }: ModelInfo) {
  const isLfm2 =
    task === 'transcribe' && details?.chatTemplate?.includes('<|tool_list_start|>') === true
  return isLfm2 ? { system: 'Perform ASR.', user: '' } : { system: '', user: tasks[task] }
}

function tokensOf({ usage }: EndEvent): object {
  const { promptTokens: input_tokens, generatedTokens: output_tokens } = usage
  return { type: 'tokens', input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
}

function transcriptEvents(
  form: AnswerForm,
  write: (text: string) => void,
): Encoder<GenerationEvent> {
  const parser = createAnswerParser(form)
  let text = ''
  const logprobs: object[] = []
  let told = 0
  const since = (from: number) => logprobs.length > 0 && { logprobs: logprobs.slice(from) }
  const send = (event: { readonly type: string; readonly [more: string]: unknown }) =>
    write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  const say = (parts: ReturnType<typeof parser.push>) => {
    for (const part of parts) {
      if (part.type !== 'text') continue
      text += part.text
      send({ type: 'transcript.text.delta', delta: part.text, ...since(told) })
      told = logprobs.length
    }
  }
  return {
    push(event) {
      if (event.type === 'token' && event.logprobs) logprobs.push(logprobOf(event.logprobs))
      say(parser.push(event.text))
      if (event.type !== 'end') return
      say(parser.end())
      send({ type: 'transcript.text.done', text, ...since(0), usage: tokensOf(event) })
    },
    fail: (error) => write(`data: ${JSON.stringify(openAiErrorBody(error))}\n\n`),
  }
}

/** A transcript. */
export interface Transcript {
  readonly text: string
  readonly task: string
  /** The language that the client named. */
  readonly language: string | undefined
  readonly seconds: number
  readonly temperature: number
  /** Log probabilities; undefined: not wanted. */
  readonly logprobs: readonly TokenLogprobs[] | undefined
  readonly usage: object
}

/** Writes a transcript. Models give no times, so formats with times have one segment or cue for the whole sound. */
export function writeTranscript(
  transcript: Transcript,
  format: (typeof transcriptFormats)[number],
): Answer {
  const { text, logprobs, usage } = transcript
  // an empty line would end the cue
  const lines = text.trim().replaceAll(/\n\s*\n/g, '\n')
  const cue = (mark: string) =>
    `${timeOf(0, mark)} --> ${timeOf(transcript.seconds, mark)}\n${lines}\n`
  switch (format) {
    case 'json':
      return { text, ...(logprobs && { logprobs: logprobs.map(logprobOf) }), usage }
    case 'verbose_json':
      return verbose(transcript)
    case 'srt':
      return new Reply(`1\n${cue(',')}\n`, { type: 'text' })
    case 'vtt':
      return new Reply(`WEBVTT\n\n${cue('.')}\n`, { type: 'text/vtt' })
    default:
      return new Reply(`${text}\n`, { type: 'text' })
  }
}

/** The verbose form of Whisper; its own figures are constant numbers, which clients expect. */
function verbose(transcript: Transcript): object {
  const { text, task, language = 'unknown', seconds, temperature, logprobs = [] } = transcript
  const all = sum(logprobs.map(({ logprob }) => logprob))
  const segment = {
    id: 0,
    seek: 0,
    start: 0,
    end: seconds,
    text,
    tokens: [],
    temperature,
    avg_logprob: all / Math.max(1, logprobs.length),
    compression_ratio: Buffer.byteLength(text) / deflateSync(text).length,
    no_speech_prob: 0,
  }
  const usage = { type: 'duration', seconds: Math.ceil(seconds) }
  return { task, language, duration: seconds, text, segments: [segment], usage }
}

/** Such as `00:01:02,500`. */
function timeOf(seconds: number, mark: string): string {
  const ms = Math.round(1000 * seconds)
  const hours = Math.floor(ms / 3_600_000)
  const rest = new Date(ms % 3_600_000).toISOString().slice(14, 23)
  return `${String(hours).padStart(2, '0')}:${rest.replace('.', mark)}`
}
