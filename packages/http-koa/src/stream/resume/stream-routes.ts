import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { list } from '../../fields/list.js'
import { readFields } from '../../fields/read-fields.js'
import { readQuery } from '../../fields/read-query.js'
import type { UnknownFields } from '../../fields/unknown-fields.js'
import type { HandledRoute } from '../../routes/api-route.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { startEventStream } from '../start-event-stream.js'

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
export const streamRoutes: readonly HandledRoute<{ readonly unknownFields: UnknownFields }>[] = [
  {
    method: 'get',
    path: '/v1/stream',
    summary: 'Read a stream again that began with X-Conversation-Id, and on',
    query: querySchema,
    answers: ['text/event-stream'],
    handle: readAgain,
  },
  {
    method: 'delete',
    path: '/v1/stream',
    summary: 'Stop and forget such a stream',
    query: stopSchema,
    handle(ctx) {
      ctx.state.transport.streams.stop(ctx, readQuery(ctx, stopSchema).conv_id)
      ctx.status = 204
    },
  },
  {
    method: 'post',
    path: '/v1/streams/lookup',
    summary: 'Which of these streams there are, and how far they are',
    body: lookupSchema,
    async handle(ctx, { unknownFields }) {
      const { conversation_ids: ids } = await readFields(ctx, lookupSchema, unknownFields)
      const { streams } = ctx.state.transport
      const seconds = (ms: number) => Math.floor(ms / 1000)
      ctx.body = ids
        .filter((id) => id !== '')
        .flatMap((id) => streams.findAll(ctx, id))
        .map(([id, session]) => ({
          conversation_id: id,
          is_done: session.endedAt !== undefined,
          total_bytes: session.bytes,
          started_at: seconds(session.startedAt),
          completed_at: seconds(session.endedAt ?? 0),
        }))
    },
  },
]

function readAgain(ctx: KoaContext): void {
  const { conv_id: id, from = '0' } = readQuery(ctx, querySchema)
  const session = ctx.state.transport.streams.find(ctx, id)
  if (session === undefined) {
    throw new CllmError('request_not_found', 'Stream not found or expired')
  }
  if (!session.isOpen) {
    throw new CllmError('model_loading', 'The stream has not begun yet: its request still waits')
  }
  const last = ctx.get('Last-Event-ID')
  const start = /^\d{1,15}$/.test(last) ? { afterId: Number(last) } : { offset: Number(from) }
  if (!session.keeps(start)) {
    throw new CllmError('invalid_request', 'Stream offset lost, please restart')
  }
  const stream = startEventStream(ctx)
  const leave = session.read(start, stream)
  ctx.res.once('close', leave)
}
