import { deflateSync } from 'node:zlib'
import type { TokenLogprobs } from '@cllm/core'
import { type Answer, Reply } from '../../../routes/route.js'
import { sum } from '../../../request/usage.js'
import { logprobOf } from '../openai-logprobs.js'

/** How a transcript is written. */
export const transcriptFormats = ['json', 'text', 'verbose_json', 'srt', 'vtt'] as const

/** What is said in a sound. */
export interface Transcript {
  readonly text: string
  readonly task: string
  /** What the client said that is spoken. */
  readonly language: string | undefined
  readonly seconds: number
  readonly temperature: number
  /** Undefined: they are not wanted. */
  readonly logprobs: readonly TokenLogprobs[] | undefined
  readonly usage: object
}

/** The models tell no times: where there are to be some, the whole sound is one segment, and one cue. */
export function writeTranscript(
  transcript: Transcript,
  format: (typeof transcriptFormats)[number],
): Answer {
  const { text, logprobs, usage } = transcript
  // an empty line would end it
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

/** As Whisper's; clients take a number alone for what only Whisper knows. */
function verbose({
  text,
  task,
  language = 'unknown',
  seconds,
  temperature,
  logprobs = [],
}: Transcript): object {
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
