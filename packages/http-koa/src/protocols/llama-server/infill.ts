import { CllmError, type EngineClient, type InfillTokens, type TokenId } from '@cllm/core'
import { z } from 'zod'
import { list, text } from '../../fields/fields.js'
import type { CallOf } from '../../routes/route.js'
import { completionSchema, type LlamaServerContext, mostTokens } from './completion-request.js'
import { complete } from './completion.js'

/** The body of `POST /infill`. */
export const infillSchema = z.object({
  ...completionSchema.shape,
  prompt: text.optional(),
  input_prefix: text,
  input_suffix: text,
  input_extra: list(
    z.object({ filename: text.optional(), text }, 'an object with a text'),
    'an array of objects with filename and text',
    { most: [1024, 'at most 1024 files'] },
  ).optional(),
})

type InfillFields = z.output<typeof infillSchema>

/** `POST /infill`: the text between a prefix and a suffix, whole or streamed. */
export async function infill(call: CallOf<typeof infillSchema>, llama: LlamaServerContext) {
  const { fields } = call
  const { client } = call.open(fields.model)
  const info = await client.info()
  if (info.infill === undefined) {
    throw new CllmError(
      'not_implemented',
      'Infill is not supported by this model: prefix token is missing. suffix token is missing. ' +
        'middle token is missing.',
    )
  }
  const { contextSize, batchSize } = info.limits
  const room = contextSize - 2
  // an answer as long as the context would leave no room for the text before it
  const answer = Math.min(Math.max(0, mostTokens(fields) ?? 0), Math.floor(room / 2))
  const prompt = await infillPrompt(client, info.infill, fields, {
    gap: Math.min(batchSize, room - answer),
    whole: room - 2 * answer,
  })
  return await complete(call, llama, client, { ...fields, prompt })
}

/**
 * The fill-in-the-middle prompt, laid out and shortened as in llama.cpp: three quarters of the room for the text before
 * the gap and one quarter for the text behind it, both next to the gap; of other files as much of the end as still fits.
 */
async function infillPrompt(
  client: EngineClient,
  marks: InfillTokens,
  fields: InfillFields,
  room: { readonly gap: number; readonly whole: number },
): Promise<TokenId[]> {
  const encode = (content: string) => client.tokenize(content, { addBos: false, special: false })
  const [bos, before, behind, begun] = await Promise.all([
    client.tokenize(''),
    encode(fields.input_prefix),
    encode(fields.input_suffix),
    encode(fields.prompt ?? ''),
  ])
  const share = Math.floor(room.gap / 4)
  const gap = [
    ...bos,
    marks.prefix,
    ...last(before, 3 * share),
    ...begun,
    marks.suffix,
    ...behind.slice(0, Math.max(0, share - 2 - begun.length)),
    marks.middle,
  ]
  const extra = await extraTokens(encode, marks, fields.input_extra ?? [])
  return [...last(extra, Math.max(0, room.whole - 4 * share)), ...gap]
}

const last = (tokens: readonly TokenId[], count: number): readonly TokenId[] =>
  tokens.slice(Math.max(0, tokens.length - count))

/** The tokens of other files, each under its name if the model knows files. */
async function extraTokens(
  encode: (content: string) => Promise<TokenId[]>,
  { repository, file }: InfillTokens,
  files: NonNullable<InfillFields['input_extra']>,
): Promise<TokenId[]> {
  const tokens: TokenId[] = []
  const add = async (content: string, mark?: TokenId): Promise<void> => {
    if (mark !== undefined) tokens.push(mark)
    for (const token of await encode(content)) tokens.push(token)
  }
  if (repository !== undefined) await add('myproject\n', repository)
  for (const { filename = 'tmp', text: content } of files) {
    if (file === undefined) await add('\n\n--- snippet ---\n\n')
    else await add(`${filename}\n`, file)
    await add(content)
  }
  if (file !== undefined) await add('filename\n', file)
  return tokens
}
