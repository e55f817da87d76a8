import type { EngineClient, GenerateRequest, LikelyToken, TokenId, TokenLogprobs } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'
import { publicError } from '../errors/public-error.js'
import { type EndEvent, type Generation, startGeneration } from '../request/generation.js'
import { withOverrides } from '../request/protocol-defaults.js'
import { llamaServerDefaults } from './llama-server-defaults.js'
import { readFields } from '../fields/read-fields.js'
import { startEventStream } from '../stream/start-event-stream.js'
import { timingsOf } from '../request/usage.js'
import {
  type CompletionFields,
  completionSchema,
  toCompletionRequest,
} from './completion-request.js'
import { generationSettings } from './generation-settings.js'
import type { LlamaServerContext } from './llama-server-context.js'
import { llamaServerErrorBody } from './llama-server-error.js'

/** `POST /completion`, whole or streamed. */
export async function completion(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, completionSchema, llama.unknownFields)
  await complete(ctx, llama, llama.directory.open(fields.model), fields)
}

/** Continues a prompt as the fields say. */
export async function complete(
  ctx: KoaContext,
  llama: LlamaServerContext,
  client: EngineClient,
  fields: CompletionFields,
): Promise<void> {
  const defaults = withOverrides(llamaServerDefaults['/completion'], llama.overrides)
  const request = await toCompletionRequest(fields, client, defaults)
  const prompt = await promptText(client, fields.prompt)
  const model = fields.model ?? llama.directory.list()[0] ?? ''
  const generation = await startGeneration(ctx, client, request)
  const about = { model, prompt, request, returnTokens: fields.return_tokens ?? false }
  if (fields.stream === true) await stream(ctx, generation, about)
  else ctx.body = await collect(generation, about)
}

interface About {
  readonly model: string
  readonly prompt: string
  readonly request: GenerateRequest
  readonly returnTokens: boolean
}

async function promptText(client: EngineClient, prompt: CompletionFields['prompt']) {
  return typeof prompt === 'string' ? prompt : await client.detokenize(prompt)
}

async function collect({ events }: Generation, about: About): Promise<object> {
  let content = ''
  const tokens: TokenId[] = []
  const logprobs: TokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    content += event.text
    if (event.type === 'end') {
      end = event
      continue
    }
    if (about.returnTokens) tokens.push(event.token)
    if (event.logprobs !== undefined) logprobs.push(event.logprobs)
  }
  return {
    index: 0,
    content,
    tokens,
    ...probabilities(logprobs),
    ...ending(end!, about, content.includes('\n')),
  }
}

async function stream(ctx: KoaContext, { events }: Generation, about: About): Promise<void> {
  const response = startEventStream(ctx)
  let count = 0
  let hasNewLine = false
  try {
    for await (const event of events) {
      hasNewLine ||= event.text.includes('\n')
      const content = JSON.stringify(event.text)
      if (event.type === 'token') {
        count++
        const tokens = about.returnTokens ? String(event.token) : ''
        const { logprobs } = event
        const probable =
          logprobs === undefined ? '' : JSON.stringify(probabilities([logprobs])).slice(1, -1)
        response.write(
          `data: {"index":0,"content":${content},"tokens":[${tokens}],"stop":false,` +
            `"tokens_predicted":${count}${probable && ','}${probable}}\n\n`,
        )
        continue
      }
      const last = {
        index: 0,
        content: event.text,
        tokens: [],
        ...ending(event, about, hasNewLine),
      }
      response.end(`data: ${JSON.stringify(last)}\n\n`)
    }
  } catch (error) {
    if (response.destroyed) return
    const body = llamaServerErrorBody(publicError(error, ctx.state.transport.logger))
    response.end(`data: ${JSON.stringify(body)}\n\n`)
  }
}

const named = ({ token, text, bytes, logprob }: LikelyToken) => ({
  id: token,
  token: text,
  bytes,
  logprob,
})

function probabilities(tokens: readonly TokenLogprobs[]): object {
  if (tokens.length === 0) return {}
  return {
    completion_probabilities: tokens.map((token) => ({
      ...named(token),
      top_logprobs: token.top.map(named),
    })),
  }
}

/** What llama-server says at the end. */
function ending(end: EndEvent, { model, prompt, request }: About, hasNewLine: boolean): object {
  const { usage } = end
  return {
    id_slot: -1,
    stop: true,
    model,
    tokens_predicted: usage.generatedTokens,
    tokens_evaluated: usage.promptTokens,
    generation_settings: generationSettings(request),
    prompt,
    has_new_line: hasNewLine,
    truncated: false,
    stop_type: end.reason === 'length' ? 'limit' : end.stop === undefined ? 'eos' : 'word',
    stopping_word: end.stop ?? '',
    tokens_cached: usage.promptTokens + usage.generatedTokens,
    timings: timingsOf(end),
  }
}
