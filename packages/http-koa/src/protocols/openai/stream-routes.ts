import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { list } from '../../fields/fields.js'
import { eventStream, Reply, StreamReply, get, del, post } from '../../routes/route.js'
import type { Answer, QueryCallOf, Route } from '../../routes/route.js'

const conversation = z.string('an id').min(1, 'an id')
const querySchema = z.object({
  conv_id: conversation,
  from: z
    .string('a number of bytes')
    .regex(/^\d{1,15}$/, 'a number of bytes')
    .optional(),
})
const stopSchema = z.object({ conv_id: conversation })
const lookupSchema = z.object({
  conversation_ids: list(z.string('an id'), 'an array of ids', {
    most: [1000, 'at most 1000 ids'],
  }),
})

/** llama-server's routes to come back to a stream, and `Last-Event-ID`. */
export const streamRoutes: readonly Route<unknown>[] = [
  get('/v1/stream', 'user', 'Resume a stream that began with X-Conversation-Id', readAgain, {
    query: querySchema,
    answers: ['text/event-stream'],
  }),
  del(
    '/v1/stream',
    'user',
    'Stop a stream that began with X-Conversation-Id, and forget it',
    ({ streams, keyName, query }) => {
      streams?.stop(keyName, query.conv_id)
      return new Reply(undefined, { status: 204 })
    },
    { query: stopSchema, answers: [], statuses: [204] },
  ),
  post(
    '/v1/streams/lookup',
    'user',
    'Which streams exist, how long they are, and whether they ended',
    ({ streams, keyName, fields, clock }) => {
      const seconds = (ms: number) => Math.floor((ms + clock.wall() - clock.now()) / 1000)
      return fields.conversation_ids
        .filter((id) => id !== '')
        .flatMap((id) => streams?.findAll(keyName, id) ?? [])
        .map(([id, session]) => ({
          conversation_id: id,
          is_done: session.endedAt !== undefined,
          total_bytes: session.bytes,
          started_at: seconds(session.startedAt),
          completed_at: session.endedAt === undefined ? 0 : seconds(session.endedAt),
        }))
    },
    { body: lookupSchema },
  ),
]

function readAgain(call: QueryCallOf<typeof querySchema>): Answer {
  const { conv_id: id, from = '0' } = call.query
  const session = call.streams?.find(call.keyName, id)
  if (session === undefined) throw new CllmError('request_not_found', 'Stream not found or expired')
  if (!session.isOpen) {
    throw new CllmError('model_loading', 'The stream has not begun yet: its request still waits')
  }
  const last = call.header('Last-Event-ID')
  const start = /^\d{1,15}$/.test(last) ? { afterId: Number(last) } : { offset: Number(from) }
  if (!session.keeps(start)) {
    throw new CllmError('invalid_request', 'Stream offset lost, please restart')
  }
  return new StreamReply(eventStream, async (writer) => {
    await session.read(start, writer, call.signal)
  })
}
