import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { file, readForm } from '../../body/read-body.js'
import { del, get, post, Reply } from '../../routes/route.js'
import type { Answer, Call, QueryCallOf, Route } from '../../routes/route.js'
import { integer } from '../../fields/fields.js'
import { unsupported } from '../../request/refusals.js'
import { isAnthropic } from '../../request/generation.js'
import { type BatchObject, type FileObject, isUnderWay, newFile, timeOf } from './batch-objects.js'
import { askingOwner, type BatchesContext, find, maySee } from './batch-routes.js'
import { pageOf } from '../openai/openai-answer.js'
import { rethrow } from './batch-store.js'

const querySchema = z.object({
  purpose: z.string().optional(),
  after: z.string().optional(),
  // the same in the current and earlier versions of Anthropic's API
  page: z.string().optional(),
  after_id: z.string().optional(),
  limit: z.preprocess(Number, integer(1, 10_000)).default(10_000),
  order: z.enum(['asc', 'desc']).default('desc'),
})

/** The form of an upload. */
const uploadSchema = z.object({
  file,
  purpose: z.literal('batch', '"batch", which is all that files are for here'),
  expires_after: z.unknown().optional(),
})

const routes: readonly Route<BatchesContext>[] = [
  post('/v1/files', 'user', 'Upload the lines of a batch, as multipart/form-data', upload, {
    form: uploadSchema,
  }),
  get('/v1/files', 'user', 'The files that were uploaded, and those of batches', listed, {
    query: querySchema,
  }),
  get('/v1/files/:id', 'user', 'One file, without its content', async (call, { store }) => {
    const { object } = await find(store, 'files', call.params['id'] ?? '')
    return shownTo(call, object)
  }),
  get(
    '/v1/files/:id/content',
    'user',
    'The content of a file',
    async (call, { store }) => {
      const { object } = await find(store, 'files', call.params['id'] ?? '')
      // Before the stream, whose errors could no longer be answered.
      const bytes = await store.sizeOf(object.id)
      return new Reply(store.content(object.id), {
        type: 'application/jsonl',
        headers: { 'Content-Length': String(bytes) },
      })
    },
    { answers: ['application/jsonl'] },
  ),
  del('/v1/files/:id', 'user', 'Delete a file', async (call, { store }) => {
    const kept = await find(store, 'files', call.params['id'] ?? '')
    const { id } = kept.object
    await checkUnused(id, store)
    // Creating a batch stores it and then looks for the file: one of the two sees the other.
    await store.remove(id, false)
    try {
      await checkUnused(id, store)
    } catch (error) {
      await store.put('files', kept)
      throw error
    }
    await store.remove(id)
    return isAnthropic(call) ? { id, type: 'file_deleted' } : { id, object: 'file', deleted: true }
  }),
]

/** OpenAI's routes of files, for batches. */
export const fileRoutes = routes.map((route) => ({ ...route, isAnthropics: true }))

async function listed(call: QueryCallOf<typeof querySchema>, { store }: BatchesContext) {
  const { purpose, order, limit, page, after_id, after = page ?? after_id } = call.query
  const files = (await store.list('files')).filter(maySee).map(({ object }) => object)
  const wanted = files.filter((file) => purpose === undefined || file.purpose === purpose)
  const found = pageOf(order === 'asc' ? wanted.toReversed() : wanted, { after, limit })
  const next_page = found.has_more ? found.last_id : null
  return { ...found, next_page, data: found.data.map((file) => shownTo(call, file)) }
}

/** @throws `invalid_request` if an unfinished batch reads the file */
async function checkUnused(id: string, store: BatchesContext['store']): Promise<void> {
  const isReader = (batch: BatchObject) => batch.input_file_id === id && isUnderWay(batch)
  // throws for a damaged batch, which may read the file
  const batches = await store.list('batches', rethrow)
  const reader = batches.find(({ object }) => isReader(object))
  if (reader === undefined) return
  const message = `The batch ${reader.object.id} is reading this file`
  throw new CllmError('invalid_request', message)
}

/** A file in Anthropic's format, or in OpenAI's with the status that its clients wait for. */
function shownTo(call: Call, file: FileObject): object {
  if (!isAnthropic(call)) return { ...file, status: 'processed' }
  return {
    type: 'file',
    id: file.id,
    filename: file.filename,
    mime_type: 'application/jsonl',
    size_bytes: file.bytes,
    created_at: timeOf(file.created_at),
    downloadable: true,
  }
}

async function upload(call: Call, { store, fileLimitBytes }: BatchesContext): Promise<Answer> {
  const { file, expires_after: expiry } = await readForm(call, uploadSchema, fileLimitBytes)
  if (expiry !== undefined) throw unsupported('expires_after', 'files stay until they are deleted')
  const content = new Uint8Array(await file.arrayBuffer())
  const object = newFile(call, file.name.slice(0, 256), content.length)
  await store.create({ ...askingOwner(), object }, content)
  return shownTo(call, object)
}
