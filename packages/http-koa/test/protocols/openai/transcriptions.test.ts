import { openAiProtocol } from '@cllm/http-koa'
import OpenAI, { toFile } from 'openai'
import t, { type Test } from 'tap'
import { writeTranscript } from '../../../src/protocols/openai/transcriptions.js'
import type { Reply } from '../../../src/routes/route.js'
import { serve } from '../../serve.js'

/** What the fake encoder makes eight vectors of. */
const sound = Buffer.from('RIFF....WAVE and so on')
const file = async () => await toFile(sound, 'speech.wav')

async function open(t: Test, backend: object = { audio: true }) {
  const server = await serve({ protocols: [openAiProtocol()], backend })
  t.teardown(() => server.close())
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 })
  return { ...server, audio: client.audio, client }
}

t.test("OpenAI's client has a sound written, whole and streamed", async (t) => {
  const { audio, post, log } = await open(t)
  const asked = { model: 'fake', file: await file() }
  const whole = await audio.transcriptions.create(asked)
  t.not(whole.text, '')
  t.match(whole.usage, { type: 'tokens', total_tokens: Number })
  const text = await audio.transcriptions.create({ ...asked, response_format: 'text' })
  t.equal(text.trim(), whole.text)
  const stream = await audio.transcriptions.create({ ...asked, stream: true })
  let [written, last] = ['', '']
  for await (const event of stream) {
    if (event.type === 'transcript.text.delta') written += event.delta
    if (event.type === 'transcript.text.done') last = event.text
  }
  t.same([written, last], [whole.text, whole.text])
  t.equal((await audio.translations.create(asked)).text === whole.text, false)
  const other = { ...asked, language: 'de', prompt: 'Write it down', temperature: 0.2 }
  t.not((await audio.transcriptions.create(other)).text, whole.text)
  // a transcription is the chat that llama-server makes of it
  const input_audio = { data: sound.toString('base64'), format: 'wav' }
  const content = [
    { type: 'text', text: 'Transcribe audio to text' },
    { type: 'input_audio', input_audio },
  ]
  const chat = await post('/v1/chat/completions', {
    messages: [{ role: 'user', content }],
    temperature: 0,
  })
  t.match(await chat.json(), { choices: [{ message: { content: whole.text } }] })
  t.equal(log.filter(({ level }) => level === 'error').length, 0)
})

/** A second and a half of silence. */
function wave(): Buffer {
  const head = Buffer.alloc(44)
  head.write('RIFF')
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(16_000, 24)
  head.writeUInt16LE(16, 34)
  head.write('data', 36)
  head.writeUInt32LE(48_000, 40)
  return Buffer.concat([head, Buffer.alloc(48_000)])
}

t.test('formats with times have the whole sound as one segment', async (t) => {
  const { audio } = await open(t)
  const wav = await toFile(wave(), 'speech.wav')
  const asked = { model: 'fake', file: wav, language: 'en', max_tokens: 20 }
  const { text } = await audio.transcriptions.create(asked)
  const verbose = await audio.transcriptions.create({
    ...asked,
    response_format: 'verbose_json',
    timestamp_granularities: ['segment'],
  })
  t.match(verbose, { task: 'transcribe', language: 'en', duration: 1.5, text })
  t.match(verbose.usage, { type: 'duration', seconds: 2 })
  t.equal(verbose.segments?.length, 1)
  t.match(verbose.segments, [{ id: 0, start: 0, end: 1.5, text, no_speech_prob: 0 }])
  t.ok(verbose.segments![0]!.avg_logprob < 0)
  t.ok(verbose.segments![0]!.compression_ratio > 0)
  const srt = await audio.transcriptions.create({ ...asked, response_format: 'srt' })
  t.equal(srt, `1\n00:00:00,000 --> 00:00:01,500\n${text.trim()}\n\n`)
  const vtt = await audio.transcriptions.create({ ...asked, response_format: 'vtt' })
  t.equal(vtt, `WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n${text.trim()}\n\n`)
  const translated = { ...asked, response_format: 'verbose_json' } as const
  t.match(await audio.translations.create(translated), { task: 'translate', language: 'english' })
})

t.test('an empty line ends no cue', (t) => {
  const said = { text: ' One.\n\n \nTwo.\n', task: 'transcribe', seconds: 2, temperature: 0 }
  const transcript = { ...said, language: undefined, logprobs: undefined, usage: {} }
  const { body } = writeTranscript(transcript, 'srt') as Reply
  t.equal(body, '1\n00:00:00,000 --> 00:00:02,000\nOne.\nTwo.\n\n')
  t.end()
})

t.test('a transcript has log probabilities where they are asked for', async (t) => {
  const { audio } = await open(t)
  const asked = { model: 'fake', file: await file(), include: ['logprobs' as const] }
  const { text, logprobs } = await audio.transcriptions.create(asked)
  t.equal(Buffer.from(logprobs!.flatMap(({ bytes }) => bytes!)).toString(), text)
  t.ok(logprobs?.every(({ logprob }) => logprob! <= 0))
  const streamed: unknown[] = []
  for await (const event of await audio.transcriptions.create({ ...asked, stream: true })) {
    if (event.type === 'transcript.text.delta') streamed.push(...event.logprobs!)
    else if (event.type === 'transcript.text.done') t.same(event.logprobs, logprobs)
  }
  t.same(streamed, logprobs)
})

t.test('what cannot be written is refused', async (t) => {
  const { audio, client, url } = await open(t)
  const refused = async (more: object, message: RegExp) => {
    const asked = { model: 'fake', file: await file(), ...more }
    const answer = audio.transcriptions.create(asked)
    await t.rejects(answer, { status: 400, message })
  }
  await refused({ response_format: 'diarized_json' }, /one of json, text, verbose_json, srt, vtt/)
  await refused({ response_format: 'srt', stream: true }, /stream: srt is not streamed/)
  const both = ['word', 'segment']
  await refused({ timestamp_granularities: both }, /segment: the model tells no times/)
  await refused({ known_speaker_names: ['a'] }, /the model tells no speakers/)
  await refused({ temperature: 3 }, /a number from 0 to 2/)
  await refused({ file: await toFile(Buffer.from('bad'), 'a.wav') }, /file: .*got bad/)
  const none = client.post('/audio/transcriptions', { body: { model: 'fake' } })
  await t.rejects(none, { status: 400, message: /expected multipart\/form-data/ })
  const form = new FormData()
  form.set('model', 'fake')
  const empty = await fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', body: form })
  t.match(await empty.json(), { error: { message: 'Missing required field: file', param: 'file' } })
  const deaf = await open(t, { images: true })
  const answer = deaf.audio.transcriptions.create({ model: 'fake', file: await file() })
  await t.rejects(answer, { message: /audio input is not supported.*--mmproj FILE/ })
})
