import { CllmError, defined, within } from '@cllm/core'
import { requestId } from '@cllm/host'
import { publicError } from '../../../errors/error-body.js'
import { withModelDefaults } from '../../../request/build-request.js'
import { programOf, startGeneration } from '../../../request/generation.js'
import { countPrompt } from '../../../request/prompt-text.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import { encodeAll, encoded, eventStream, StreamReply } from '../../../routes/route.js'
import type { Answer, Call, CallOf } from '../../../routes/route.js'
import { openModel } from '../../../routes/driver.js'
import type { ResumableStreams } from '../../../stream/resumable-streams.js'
import { withMcpTools } from '../../mcp/mcp-servers.js'
import { type OpenAiContext, openAiErrorBody } from '../openai-answer.js'
import { type KeptItems, taken } from './kept-items.js'
import { keptInput } from './response-items.js'
import type { Found, Kept, KeptItem, ResponseObject } from './response-items.js'
import { responseHead } from './response-object.js'
import { eventsTo, responseEvents, type Send } from './response-stream.js'
import { itemsBefore, type responsesSchema, toResponsesRequest } from './responses-request.js'

type ResponsesCall = CallOf<typeof responsesSchema>

/** `POST /v1/responses`, whole, streamed or in the background. Stored if the server has a store. */
export async function responses(call: ResponsesCall, openAi: OpenAiContext): Promise<Answer> {
  const { fields } = call
  if (fields.background === true) return await answerLater(call, openAi)
  const asked = await ask(call, openAi, newId(call))
  const { events } = asked.generation
  if (fields.stream === true) {
    return encoded(eventStream, events, (write) => responseEvents(call, asked, eventsTo(write)))
  }
  let whole = {}
  const send: Send = (_, { response }) => {
    // the last event has the whole response
    if (response !== undefined) whole = response
  }
  await encodeAll(responseEvents(call, asked, send, false), events)
  return whole
}

/** A response counts as not stored if writing takes longer than this many milliseconds. */
const longestWriteMs = 10_000

const newId = ({ random }: Pick<ResponsesCall, 'random'>): string => `resp_${requestId(random)}`

/** The owner of responses: the API key. */
export const ownerOf = ({ keyName }: Pick<ResponsesCall, 'keyName'>): string => keyName ?? ''

/** The engine and its request for a body, with the tools of the MCP servers that the body names. */
async function read(call: ResponsesCall, { defaults, kept, recent, mcp }: OpenAiContext) {
  const { tools } = call.fields
  const named = mcp && tools && (await withMcpTools(tools, mcp))
  const owner = ownerOf(call)
  const { items: before, program } = await itemsBefore(call.fields, owner, kept)
  const readKept = kept && (async (id: string) => await kept.response(owner, id))
  const input = await recent.filled(owner, call.fields.input, before, readKept)
  const fields = { ...call.fields, tools: named ?? tools, input }
  const opened = call.open(fields.model)
  const own = defaults['/v1/responses']
  const request = await toResponsesRequest(fields, opened.client, own, call.logger, before)
  return { ...opened, fields, before, program, request }
}

/** Has the engine begin what a body asks for. */
async function ask(call: ResponsesCall, openAi: OpenAiContext, id: string) {
  const { fields, model, client, before, program, request } = await read(call, openAi)
  const session = request.request.session ?? programOf(call) ?? program
  const named = { ...request.request, ...defined({ session }) }
  const generation = await startGeneration(call, client, named)
  // answers of a batch are in its file, so they are not stored
  const isStored = fields.store ?? call.streams !== undefined
  const kept = isStored ? openAi.kept : undefined
  const input = kept ? keptInput(call, fields.input, before) : []
  return {
    ...request,
    generation,
    // with all items, as another server that continues it may not know them by their ids
    fields: { ...call.fields, input: fields.input },
    head: responseHead(call, model, id, kept !== undefined),
    input,
    isKept: kept !== undefined,
    keep: async <Response extends object>(response: Response): Promise<Response> => {
      const object = response as Response & ResponseObject
      if (isStored) openAi.recent.add(ownerOf(call), object.output)
      if (kept === undefined) return response
      const keeping = keepTurn(call, kept, input, object)
      const isWritten = await within(call.clock, longestWriteMs, keeping, () => false)
      return isWritten ? response : { ...response, store: false }
    },
  }
}

/** Stores a response, and adds it to its conversation, if any; resolves with whether both were written. */
async function keepTurn(
  call: ResponsesCall,
  kept: KeptItems,
  items: readonly KeptItem[],
  object: ResponseObject,
): Promise<boolean> {
  const owner = ownerOf(call)
  const keep = object.background === true ? 'finish' : 'put'
  const isKept = await kept[keep](owner, { object, items })
  const { conversation } = call.fields
  const isAnswered = object.status === 'completed' || object.status === 'incomplete'
  if (conversation === undefined || !isAnswered || !isKept) return isKept
  const add = <Turns extends Kept>(turns: Turns) => ({
    ...turns,
    items: [...turns.items, ...items, ...object.output],
  })
  try {
    await kept.change(owner, conversation, add)
    return true
  } catch (error) {
    call.logger.warn({ err: error }, 'an answer was not added to its conversation')
    return false
  }
}

/** Answers at once, and computes on until the response is cancelled or removed. */
async function answerLater(call: ResponsesCall, openAi: OpenAiContext): Promise<Answer> {
  const { fields, streams } = call
  if (fields.store === false) throw expectedField('background', 'store to be true')
  if (streams === undefined) throw unsupported('background', 'a batch is computed so anyway')
  // Fixed, so that another process that computes it again samples the same tokens.
  const defaults = openAi.defaults['/v1/responses']
  const { set } = withModelDefaults(call.open(fields.model).client, defaults)
  const wish = fields.seed ?? fields.random_seed ?? set?.seed ?? -1
  const seed = wish < 0 ? call.random.uint32() : wish
  const own = { ...call, fields: { ...fields, seed } }
  const { object, session } = (await compute(own, streams, openAi))!
  if (fields.stream !== true) return object
  return new StreamReply(eventStream, async (writer) => {
    await session.read({ afterId: -1 }, writer, call.signal)
  })
}

/** Computes a response again whose server ended meanwhile. */
export async function answerAgain(call: Call, openAi: OpenAiContext, lost: Found<ResponseObject>) {
  const { fields = {}, items } = lost
  // JSON has no Infinity: null means no limit. A client's own nulls were removed before.
  const given = Object.entries(fields).map(([name, value]) => [name, value ?? Infinity])
  const own = { ...call, fields: Object.fromEntries(given) } as ResponsesCall
  const kept = openAi.kept!
  try {
    await compute(own, call.streams!, openAi, lost)
  } catch (error) {
    const shown = publicError(error, call.logger)
    const { code, message } = openAiErrorBody(shown).error
    const failed = { status: 'failed', error: { code, message } }
    const end = shown.code === 'cancelled' ? { status: 'cancelled' } : failed
    // If it is only refused for now, it stays unfinished for the next reader.
    const isForNow = shown.status === 429 || shown.status === 503
    if (isForNow) await kept.leave(ownerOf(call), lost.object.id)
    else await kept.finish(ownerOf(call), { items, object: { ...lost.object, ...end } })
  }
}

/** @param lost - the unfinished response to continue; undefined: the engine computes it already */
async function compute(
  call: ResponsesCall,
  streams: ResumableStreams,
  openAi: OpenAiContext,
  lost?: Found<ResponseObject>,
) {
  const { kept } = openAi
  const id = lost?.object.id ?? newId(call)
  const owner = ownerOf(call)
  const ending = new AbortController()
  if (lost && !(await kept!.begin(owner, lost, ending, call.clock))) return undefined
  const session = streams.begin(call.keyName, id)
  const signal = AbortSignal.any([ending.signal, session.signal])
  const own: ResponsesCall = {
    ...call,
    signal,
    open: (model, options) => openModel(call.engines, model, { until: signal, ...options }),
  }
  try {
    const asked = await ask(own, openAi, id)
    const { generation, fields, input } = asked
    const head = { ...asked.head, ...(lost && { created_at: lost.object['created_at'] }) }
    const object = head as ResponseObject
    const begun = { object, items: input, fields }
    if (lost === undefined && !(await kept!.begin(owner, begun, ending, call.clock))) {
      throw new CllmError('storage_failed', 'The response cannot be kept; the log says why')
    }
    streams.accept(session)
    const send = eventsTo((text) => session.write(text))
    const encoder = responseEvents(own, { ...asked, head }, send)
    const encode = async (): Promise<void> => {
      try {
        await encodeAll(encoder, generation.events)
      } catch (error) {
        const shown = ending.signal.reason === taken ? taken : publicError(error, call.logger)
        // This server is shutting down: another one will continue it.
        if (shown.code === 'shutting_down') await kept!.leave(owner, id)
        else await encoder.fail(shown)
        if (shown === taken) streams.stop(call.keyName, id)
      }
      session.end()
    }
    void encode()
    return { object, session }
  } catch (error) {
    ending.abort(error)
    throw streams.fail(session, error)
  }
}

/** `POST /v1/responses/input_tokens`: the tokens of an input, without an answer. */
export async function countResponseTokens(call: ResponsesCall, openAi: OpenAiContext) {
  const { client, request } = await read(call, openAi)
  return { object: 'response.input_tokens', ...(await countPrompt(client, request.request)) }
}

/** `POST /v1/responses/compact`: not supported, as only OpenAI's servers could read the result. */
export function notCompacted(): never {
  const message =
    'Conversations are not compacted here: send them whole. ' +
    'With "truncation": "auto" the oldest messages that do not fit are dropped'
  throw new CllmError('unsupported', message)
}
