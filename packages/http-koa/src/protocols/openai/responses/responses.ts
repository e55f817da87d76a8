import { CllmError, within } from '@cllm/core'
import { requestId } from '@cllm/host'
import { collectAnswer } from '../../../chat/answer/create-answer-parser.js'
import { publicError } from '../../../errors/public-error.js'
import { startGeneration } from '../../../request/generation.js'
import { countPrompt } from '../../../request/prompt-text.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import type { Answer, CallOf } from '../../../routes/call.js'
import { openModel } from '../../../routes/driver.js'
import { encodeAll, encoded, eventStream, StreamReply } from '../../../routes/reply.js'
import { withMcpTools } from '../../mcp/mcp-servers.js'
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
  return (await keep?.(response)) ?? response
}

/** A disk that takes longer than these milliseconds has not kept a response. */
const longestWriteMs = 10_000

const newId = ({ random }: Pick<ResponsesCall, 'random'>): string => `resp_${requestId(random)}`

/** Whose responses these are: those of each API key are its own. */
export const ownerOf = ({ keyName }: Pick<ResponsesCall, 'keyName'>): string => keyName ?? ''

/** A body with the tools of the MCP servers that it names. */
async function withTools(
  fields: ResponsesCall['fields'],
  { mcp }: OpenAiContext,
): Promise<ResponsesCall['fields']> {
  if (mcp === undefined || fields.tools === undefined) return fields
  return { ...fields, tools: await withMcpTools(fields.tools, mcp) }
}

/** Has the engine begin what a body asks for. */
async function ask(call: ResponsesCall, openAi: OpenAiContext, id: string) {
  const fields = await withTools(call.fields, openAi)
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
    head: responseHead(call, call.fields, model, { id, isKept }),
    hasTimings: fields.timings_per_token === true,
    input,
    keep:
      openAi.kept && isKept
        ? async <Response extends object>(response: Response): Promise<Response> => {
            const keeping = keepTurn(call, openAi.kept!, input, response as never)
            const isWritten = await within(call.clock, longestWriteMs, keeping, () => false)
            return isWritten ? response : { ...response, store: false }
          }
        : undefined,
  }
}

/** Keeps a response, and adds it to its conversation; resolves with whether it is written. */
async function keepTurn(
  call: ResponsesCall,
  kept: KeptItems,
  items: readonly KeptItem[],
  object: ResponseObject,
): Promise<boolean> {
  const owner = ownerOf(call)
  const turn = { object, items }
  const keeping = object.background === true ? kept.finish(owner, turn) : kept.put(owner, turn)
  const { conversation } = call.fields
  const isAnswered = object.status === 'completed' || object.status === 'incomplete'
  if (conversation === undefined || !isAnswered) return await keeping
  const add = <Turns extends Kept>(turns: Turns) => ({
    ...turns,
    items: [...turns.items, ...items, ...object.output],
  })
  const adding = kept.change(owner, conversation, add).catch((error: unknown) => {
    call.logger.warn({ err: error }, 'an answer was not added to its conversation')
  })
  const [isKept] = await Promise.all([keeping, adding])
  return isKept
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
        await encodeAll(encoder, generation.events)
      } catch (error) {
        await encoder.fail(publicError(error, call.logger))
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
export async function countResponseTokens(call: ResponsesCall, openAi: OpenAiContext) {
  const { logger } = call
  const fields = await withTools(call.fields, openAi)
  const before = await itemsBefore(fields, ownerOf(call), openAi.kept)
  const { client } = call.open(fields.model)
  const defaults = openAiDefaults['/v1/responses']
  const { request } = await toResponsesRequest(fields, client, defaults, logger, before)
  return { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}
