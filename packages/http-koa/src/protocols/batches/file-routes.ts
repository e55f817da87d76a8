import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { readWithin } from '../../body/read-within.js'
import { readQuery } from '../../fields/read-query.js'
import type { HandledRoute } from '../../routes/api-route.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { isAnthropic } from '../../request/request-headers.js'
import { type FileObject, isUnderWay } from './batch-objects.js'
import { newId } from './batch-runner.js'
import { askingOwner, type BatchesContext, findFile, maySee, pageOf } from './batches-context.js'

const querySchema = z.object({
  purpose: z.string().optional(),
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(10_000).default(10_000),
  order: z.enum(['asc', 'desc']).default('desc'),
})

/** OpenAI's routes of files, for batches. */
export const fileRoutes: readonly HandledRoute<BatchesContext>[] = [
  {
    method: 'post',
    path: '/v1/files',
    summary: 'Upload the lines of a batch, as multipart/form-data',
    handle: upload,
  },
  {
    method: 'get',
    path: '/v1/files',
    summary: 'The files that were uploaded, and those of batches',
    query: querySchema,
    async handle(ctx, { store }) {
      const { purpose, order, ...page } = readQuery(ctx, querySchema)
      const files = (await store.list('files')).filter(maySee).map(({ object }) => object)
      const wanted = files.filter((file) => purpose === undefined || file.purpose === purpose)
      const listed = pageOf(order === 'asc' ? wanted.toReversed() : wanted, page)
      ctx.body = isAnthropic(ctx) ? { ...listed, data: listed.data.map(anthropicForm) } : listed
    },
  },
  {
    method: 'get',
    path: '/v1/files/:id',
    summary: 'One file, without its content',
    async handle(ctx, { store }) {
      const { object } = await findFile(store, ctx.params['id'] ?? '')
      ctx.body = isAnthropic(ctx) ? anthropicForm(object) : object
    },
  },
  {
    method: 'get',
    path: '/v1/files/:id/content',
    summary: 'The content of a file',
    answers: ['application/jsonl'],
    async handle(ctx, { store }) {
      const { object } = await findFile(store, ctx.params['id'] ?? '')
      ctx.type = 'application/jsonl'
      ctx.length = await store.sizeOf(object.id)
      ctx.body = store.content(object.id)
      ctx.res.setTimeout(ctx.state.transport.stallMs)
    },
  },
  {
    method: 'delete',
    path: '/v1/files/:id',
    summary: 'Delete a file',
    async handle(ctx, { store }) {
      const { object } = await findFile(store, ctx.params['id'] ?? '')
      const { id } = object
      const batches = await store.list('batches')
      const user = batches.find(
        ({ object: batch }) => batch.input_file_id === id && isUnderWay(batch),
      )
      if (user !== undefined) {
        const message = `The batch ${user.object.id} is reading this file`
        throw new CllmError('invalid_request', message)
      }
      await store.remove(id)
      ctx.body = { id, object: 'file', deleted: true }
    },
  },
]

/** A file as Anthropic's clients read it. */
const anthropicForm = ({ id, bytes, created_at, filename }: FileObject) => ({
  type: 'file',
  id,
  filename,
  mime_type: 'application/jsonl',
  size_bytes: bytes,
  created_at: new Date(created_at * 1000).toISOString(),
  downloadable: true,
})

async function upload(ctx: KoaContext, { store, fileLimitBytes }: BatchesContext): Promise<void> {
  const form = await readForm(ctx, fileLimitBytes)
  const [file, purpose] = [form.get('file'), form.get('purpose')]
  if (purpose !== 'batch') {
    const got = typeof purpose === 'string' ? `"${purpose.slice(0, 64)}"` : 'nothing'
    throw invalid('purpose', `expected "batch", which is all that files are for here, got ${got}`)
  }
  if (file === null || typeof file === 'string') throw invalid('file', 'expected a file, got none')
  const content = new Uint8Array(await file.arrayBuffer())
  const { clock, random } = ctx.state.transport
  const object = {
    id: newId('file-', random),
    object: 'file',
    bytes: content.length,
    created_at: Math.floor(clock.now() / 1000),
    filename: file.name.slice(0, 256),
    purpose: 'batch',
  } as const
  await store.create({ ...askingOwner(), object }, content)
  ctx.body = object
}

async function readForm(ctx: KoaContext, limit: number): Promise<FormData> {
  const type = ctx.get('Content-Type')
  if (!/^multipart\/form-data/i.test(type)) {
    const got = type === '' ? 'no type' : type.slice(0, 64)
    throw invalid('file', `expected multipart/form-data with a file, got ${got}`)
  }
  const count = ctx.state.transport.bodies.begin(ctx)
  const body = await readWithin(ctx.req, limit, ctx.get('Content-Length'), count, 'file')
  try {
    return await new Response(body as Uint8Array<ArrayBuffer>, {
      headers: { 'content-type': type },
    }).formData()
  } catch (error) {
    const message = `The form cannot be read: ${(error as Error).message}`
    throw new CllmError('invalid_request', message, { cause: error })
  }
}

const invalid = (field: string, problem: string): CllmError =>
  new CllmError('invalid_request', `${field}: ${problem}`, { details: { field } })
