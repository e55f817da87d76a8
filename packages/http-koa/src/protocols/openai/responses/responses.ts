import { CllmError } from '@cllm/core'
import { requestId } from '@cllm/host'
import { collectAnswer } from '../../../chat/answer/create-answer-parser.js'
import { publicError } from '../../../errors/public-error.js'
import { startGeneration } from '../../../request/generation.js'
import { countPrompt } from '../../../request/prompt-text.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import type { Answer, CallOf } from '../../../routes/call.js'
import { openModel } from '../../../routes/driver.js'
import { encoded, eventStream, StreamReply } from '../../../routes/reply.js'
import { type OpenAiContext, openAiDefaults } from '../openai-context.js'
import { customInput } from '../tools/custom-tools.js'
import type { Kept, KeptItem, KeptItems, ResponseObject } from './kept-items.js'
import { type ItemKind, newItem, responseEnd, responseHead } from './response-object.js'
import { responseEvents } from './response-stream.js'
import { keptInput } from './responses-input.js'
import { itemsBefore, type responsesSchema, toResponsesRequest } from './responses-request.js'

type ResponsesCall = CallOf<typeof responsesSchema>

/** `POST /v1/responses`, whole or streamed, or in the background. Kept where the server has a folder for it. */
export async function responses(call: ResponsesCall, openAi: OpenAiContext): Promise<Answer> {
  const { fields } = call
  if (fields.background === true) return await answerLater(call, openAi)
  const asked = await ask(call, openAi, newId(call))
  const { generation, form, customs, head, keep } = asked
  if (fields.stream === true) {
    return encoded(eventStream, generation.events, (write) =>
      responseEvents(call, generation, form, asked, write),
    )
  }
  const { content, reasoning, calls, end, ...answer } = await collectAnswer(generation, form)
  const item = (kind: ItemKind, text: string, name?: string) => ({
    ...newItem(call, kind, name),
    text,
  })
  const items = [
    ...(reasoning === '' ? [] : [item('reasoning', reasoning)]),
    ...(content === '' && calls.length > 0
      ? []
      : [{ ...item('message', content), logprobs: answer.logprobs }]),
    ...calls.map(({ name, arguments: given }) =>
      customs.has(name)
        ? item('custom_tool_call', customInput(given), name)
        : item('function_call', given, name),
    ),
  ]
  const response = { ...head, ...responseEnd(call, end, items, answer.reasoningTokens) }
  keep?.(response)
  return response
}

const newId = ({ random }: Pick<ResponsesCall, 'random'>): string => `resp_${requestId(random)}`

/** Whose responses these are: those of each API key are its own. */
export const ownerOf = ({ keyName }: Pick<ResponsesCall, 'keyName'>): string => keyName ?? ''

/** Has the engine begin what a body asks for. */
async function ask(call: ResponsesCall, openAi: OpenAiContext, id: string) {
  const { fields } = call
  const owner = ownerOf(call)
  const before = await itemsBefore(fields, owner, openAi.kept)
  const { model, client } = call.open(fields.model)
  const defaults = openAi.defaults['/v1/responses']
  const request = await toResponsesRequest(fields, client, defaults, call.logger, before)
  const generation = await startGeneration(call, client, request.request)
  // a batch has its answers in its file
  const isKept = openAi.kept !== undefined && (fields.store ?? call.streams !== undefined)
  const input = isKept ? keptInput(call, fields.input) : []
  return {
    ...request,
    generation,
    head: responseHead(call, fields, model, { id, isKept }),
    hasTimings: fields.timings_per_token === true,
    input,
    keep:
      openAi.kept && isKept
        ? (response: object) => keepTurn(call, openAi.kept!, input, response as ResponseObject)
        : undefined,
  }
}

/** Keeps a response, and adds it to its conversation. */
function keepTurn(
  call: ResponsesCall,
  kept: KeptItems,
  items: readonly KeptItem[],
  object: ResponseObject,
): void {
  const owner = ownerOf(call)
  if (object.background === true) kept.finish(owner, { object, items })
  else void kept.put(owner, { object, items })
  const { conversation } = call.fields
  const isAnswered = object.status === 'completed' || object.status === 'incomplete'
  if (conversation === undefined || !isAnswered) return
  const add = <Turns extends Kept>(turns: Turns) => ({
    ...turns,
    items: [...turns.items, ...items, ...object.output],
  })
  kept.change(owner, conversation, add).catch((error: unknown) => {
    call.logger.warn({ err: error }, 'a conversation was removed while it was answered')
  })
}

/**
 * Answers at once, and computes on until the response is cancelled or removed: in the server, so that its
 * end loses the answer, while that of an engine does not.
 */
async function answerLater(call: ResponsesCall, openAi: OpenAiContext): Promise<Answer> {
  const { fields, streams } = call
  const { kept } = openAi
  if (fields.store === false) throw expectedField('background', 'store to be true')
  if (streams === undefined) throw unsupported('background', 'a batch is computed so anyway')
  const id = newId(call)
  const owner = ownerOf(call)
  const session = streams.begin(call.keyName, id)
  const ending = new AbortController()
  const signal = AbortSignal.any([ending.signal, session.signal])
  const own: ResponsesCall = {
    ...call,
    signal,
    open: (model, options) => openModel(call.engines, model, { until: signal, ...options }),
  }
  try {
    const asked = await ask(own, openAi, id)
    const { generation, form, head, input } = asked
    const object = { ...head, status: 'in_progress', output: [], usage: null } as ResponseObject
    if (!(await kept!.put(owner, { object, items: input }))) {
      throw new CllmError('storage_failed', 'The response cannot be kept; the log says why')
    }
    kept!.begin(owner, id, ending)
    streams.accept(session)
    const encoder = responseEvents(own, generation, form, asked, (text) => session.write(text))
    const compute = async (): Promise<void> => {
      try {
        encoder.begin?.()
        for await (const event of generation.events) encoder.push(event)
      } catch (error) {
        encoder.fail(publicError(error, call.logger))
      }
      session.end()
    }
    void compute()
    if (fields.stream !== true) return object
  } catch (error) {
    ending.abort(error)
    throw streams.fail(session, error)
  }
  return new StreamReply(eventStream, async (writer) => {
    await session.read({ afterId: -1 }, writer, call.signal)
  })
}

/** `POST /v1/responses/input_tokens`: the tokens of an input, without an answer. */
export async function countResponseTokens(call: ResponsesCall, { kept }: OpenAiContext) {
  const { fields, logger } = call
  const before = await itemsBefore(fields, ownerOf(call), kept)
  const { client } = call.open(fields.model)
  const defaults = openAiDefaults['/v1/responses']
  const { request } = await toResponsesRequest(fields, client, defaults, logger, before)
  return { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}
