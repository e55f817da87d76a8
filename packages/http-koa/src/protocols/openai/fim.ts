import { requestId } from '@cllm/host'
import { maxTokensField } from './openai-fields.js'
import { text } from '../../fields/fields.js'
import { collect, type GenerationEvent, startGeneration } from '../../request/generation.js'
import { timingsOf, usageOf } from '../../request/usage.js'
import { type CallOf, encoded, type Encoder, eventStream } from '../../routes/route.js'
import { type OpenAiContext, secondsNow, chunkWriter } from './openai-answer.js'
import { completionsSchema, toCompletionRequests } from './completions.js'

/** The body of `POST /v1/fim/completions`: that of a text completion with one prompt and one answer. */
export const fimSchema = completionsSchema
  .omit({
    n: true,
    best_of: true,
    echo: true,
    logprobs: true,
    n_probs: true,
    post_sampling_probs: true,
    stream_options: true,
    return_progress: true,
    timings_per_token: true,
    verbose: true,
  })
  .extend({ prompt: text, max_tokens: maxTokensField.optional() })

/** `POST /v1/fim/completions` of Mistral's API: the text between a prompt and a suffix, as the answer of a chat. */
export async function fimCompletions(call: CallOf<typeof fimSchema>, openAi: OpenAiContext) {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const defaults = openAi.defaults['/v1/fim/completions']
  const [request] = await toCompletionRequests(fields, client, defaults)
  const generation = await startGeneration(call, client, request!)
  const head = { id: requestId(call.random), created: secondsNow(call), model }
  if (fields.stream === true) {
    return encoded(eventStream, generation.events, (write) => chunks(head, write))
  }
  // not parsed as a chat's answer, which would drop white space at the end
  const { text: content, end } = await collect(generation)
  const message = { role: 'assistant', content }
  return {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: end.reason }],
    usage: usageOf([{ end }]),
    timings: timingsOf(end),
  }
}

/** The chunks of Mistral's streams, of which the last one always has the usage. */
function chunks(head: object, write: (text: string) => void): Encoder<GenerationEvent> {
  const { send, fail } = chunkWriter({ ...head, object: 'chat.completion.chunk' }, false, write)
  const say = (delta: object, finish_reason: string | null = null, more = '') =>
    send(JSON.stringify({ index: 0, delta, finish_reason }), more)
  return {
    begin: () => say({ role: 'assistant', content: '' }),
    push(event) {
      const { text: content } = event
      if (event.type === 'end') {
        const usage = JSON.stringify(usageOf([{ end: event }]))
        say({ content }, event.reason, `,"usage":${usage}`)
      } else if (content !== '') say({ content })
    },
    end: () => write('data: [DONE]\n\n'),
    fail,
  }
}
