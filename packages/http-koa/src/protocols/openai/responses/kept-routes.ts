import { attempt, CllmError, pause } from '@cllm/core'
import { requestId } from '@cllm/host'
import { z } from 'zod'
import { integer, largest, object } from '../../../fields/fields.js'
import { eventStream, StreamReply, del, get, post, wholeOrEvents } from '../../../routes/route.js'
import type { Answer, Call, CallOf, QueryCallOf, Route } from '../../../routes/route.js'
import { type OpenAiContext, pageOf, secondsNow } from '../openai-answer.js'
import { beatMs, type KeptItems } from './kept-items.js'
import { itemsSchema, keptInput, toMessages } from './response-items.js'
import type { ConversationObject, Kept, KeptItem, ResponseObject } from './response-items.js'
import { answerAgain, ownerOf } from './responses.js'

const readSchema = z.object({
  stream: z.enum(['true', 'false'], 'true or false').optional(),
  starting_after: z.preprocess(Number, integer(0, largest)).optional(),
})

const pageSchema = z.object({
  after: z.string('the id of an item').optional(),
  limit: z.preprocess(Number, integer(1, 100)).default(20),
  order: z.enum(['asc', 'desc'], 'asc or desc').default('desc'),
})

type PageCall = QueryCallOf<typeof pageSchema>
const inPages = { query: pageSchema }

const metadata = object.optional()
const createSchema = z.object({ items: itemsSchema.optional(), metadata })
const updateSchema = z.object({ metadata })
const addSchema = z.object({ items: itemsSchema })

/** The context of these routes, which only exist if there is a store. */
interface KeptContext extends OpenAiContext {
  readonly kept: KeptItems
}

/** The owner and the id of the object that a path names. */
const placeOf = (call: Call): [owner: string, id: string] => [
  ownerOf(call),
  call.params['id'] ?? '',
]

const routes: readonly Route<KeptContext>[] = [
  get('/v1/responses/:id', 'user', 'A response that is kept, or its events', readResponse, {
    query: readSchema,
    answers: wholeOrEvents,
  }),
  del('/v1/responses/:id', 'user', 'Forget a response', async (call, { kept }) => {
    const [owner, id] = placeOf(call)
    await kept.remove(owner, id, 'response')
    return { id, object: 'response', deleted: true }
  }),
  get('/v1/responses/:id/input_items', 'user', 'The input items of a response', answered, inPages),
  post('/v1/responses/:id/cancel', 'user', 'End a response in the background', cancel),
  post('/v1/conversations', 'user', 'Begin a conversation', begin, { body: createSchema }),
  get('/v1/conversations/:id', 'user', 'A conversation', async (call, { kept }) => {
    return (await kept.conversation(...placeOf(call))).object
  }),
  post('/v1/conversations/:id', 'user', 'Change the metadata of a conversation', update, {
    body: updateSchema,
  }),
  del('/v1/conversations/:id', 'user', 'Forget a conversation', async (call, { kept }) => {
    const [owner, id] = placeOf(call)
    await kept.remove(owner, id, 'conversation')
    return { id, object: 'conversation.deleted', deleted: true }
  }),
  get('/v1/conversations/:id/items', 'user', 'The items of a conversation', itemsIn, inPages),
  post('/v1/conversations/:id/items', 'user', 'Add items to a conversation', add, {
    body: addSchema,
  }),
  get('/v1/conversations/:id/items/:item', 'user', 'One item', async (call, { kept }) =>
    itemIn(call, await kept.conversation(...placeOf(call))),
  ),
  del('/v1/conversations/:id/items/:item', 'user', 'Remove an item', async (call, { kept }) => {
    const changed = await kept.change(...placeOf(call), (turns) => {
      const gone = itemIn(call, turns)
      return { ...turns, items: turns.items.filter((item) => item !== gone) }
    })
    return changed.object
  }),
]

/** OpenAI's routes of stored responses and conversations, for the API key that made them. */
export const keptRoutes = routes.map((route): Route<KeptContext> => ({
  ...route,
  isAlways: 'loading',
}))

async function begin(call: CallOf<typeof createSchema>, { kept }: KeptContext) {
  const { items, metadata: given = {} } = call.fields
  const id = `conv_${requestId(call.random)}`
  const created_at = secondsNow(call)
  const begun: ConversationObject = { id, object: 'conversation', created_at, metadata: given }
  const turns = { object: begun, items: itemsOf(call, items) }
  if (await kept.put(ownerOf(call), turns)) return begun
  throw new CllmError('storage_failed', 'The conversation cannot be kept; the log says why')
}

async function update(call: CallOf<typeof updateSchema>, { kept }: KeptContext) {
  const { metadata: given = {} } = call.fields
  const changed = await kept.change(...placeOf(call), (turns) => {
    return { ...turns, object: { ...turns.object, metadata: given } }
  })
  return changed.object
}

async function add(call: CallOf<typeof addSchema>, { kept }: KeptContext): Promise<Answer> {
  let added: readonly KeptItem[] = []
  await kept.change(...placeOf(call), (turns) => {
    added = itemsOf(call, call.fields.items, turns.items)
    return { ...turns, items: [...turns.items, ...added] }
  })
  return pageOf(added, { limit: added.length })
}

/** Checked items for a conversation: items to which no answer is possible would make the whole conversation unusable. */
function itemsOf(
  call: Call,
  given: z.output<typeof itemsSchema> = [],
  before?: readonly KeptItem[],
): readonly KeptItem[] {
  toMessages('', given, call.logger, [], 'items')
  return keptInput(call, given, before)
}

function itemIn({ params }: Call, { items }: Kept<unknown>): KeptItem {
  const found = items.find(({ id }) => id === params['item'])
  if (found !== undefined) return found
  throw new CllmError('not_found', 'There is no such item in this conversation')
}

async function answered(call: PageCall, { kept }: KeptContext) {
  return pageIn(call, (await kept.response(...placeOf(call))).items)
}

async function itemsIn(call: PageCall, { kept }: KeptContext) {
  return pageIn(call, (await kept.conversation(...placeOf(call))).items)
}

const pageIn = ({ query: { order, ...page } }: PageCall, items: readonly KeptItem[]): Answer =>
  pageOf(order === 'asc' ? items : items.toReversed(), page)

const isLoading = ({ engines }: Call, { model }: ResponseObject): boolean =>
  attempt(() => engines.status(String(model)).state) === 'loading'

/** Reads a response. If its events are not, or no longer, in memory here, a stream waits for the last event alone. */
async function readResponse(call: QueryCallOf<typeof readSchema>, openAi: KeptContext) {
  const { kept } = openAi
  const [owner, id] = placeOf(call)
  const look = async () => {
    const found = await kept.response(owner, id)
    // If its model cannot be loaded, that says nothing of it: a later look continues it.
    if (found.fields === undefined || isLoading(call, found.object)) return found.object
    const answering = answerAgain(call, openAi, found)
    // Not if another server computes it, which may be slow.
    if (found.by === undefined) await answering
    return (await kept.response(owner, id)).object
  }
  let response = await look()
  const { stream, starting_after: afterId = -1 } = call.query
  if (stream !== 'true') return response
  return new StreamReply(eventStream, async (writer) => {
    for (let isTold = false; !call.signal.aborted; response = await look()) {
      const session = call.streams?.find(call.keyName, id)
      // A response that has not begun may have been refused for now, so it is read again.
      if (session?.isOpen === true && session.keeps({ afterId })) {
        return await session.read({ afterId }, writer, call.signal)
      }
      const { status } = response
      const isOver = status !== 'in_progress'
      const type = `response.${status === 'cancelled' ? 'incomplete' : status}`
      // If this server takes the response over, its events continue these numbers.
      const sequence_number = isOver ? afterId + 1 : Math.max(0, afterId)
      const data = JSON.stringify({ type, sequence_number, response })
      if (isOver || !isTold) writer.write(`event: ${type}\ndata: ${data}\n\n`)
      if (isOver) return
      isTold = true
      await pause(call.clock, beatMs, call.signal)
    }
  })
}

async function cancel(call: Call, { kept }: KeptContext): Promise<Answer> {
  const [owner, id] = placeOf(call)
  const { object: response } = await kept.response(owner, id)
  if (response.background !== true) {
    throw new CllmError('invalid_request', 'Only responses in the background can be cancelled')
  }
  await kept.cancel(owner, id, call.clock)
  return (await kept.response(owner, id)).object
}
