import type { EngineInfo } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'
import { peekInfo } from '../engines/model-queries.js'
import type { OpenAiContext } from './openai-context.js'

/** `GET /v1/models`. */
export async function listModels(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const { directory } = openAi
  const adapted = (directory.adapted?.() ?? []).map(({ name }) => name)
  const data = [...directory.list(), ...adapted].map(async (id) => await describe(id, openAi))
  ctx.body = { object: 'list', data: await Promise.all(data) }
}

/** `GET /v1/models/{id}`; ids with slashes too. */
export async function showModel(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  ctx.body = await describe(ctx.params['id'] ?? '', openAi)
}

async function describe(id: string, { directory, started }: OpenAiContext) {
  const { name, state, aliases = [], tags = [] } = directory.status(id)
  const info = await peekInfo(directory, name)
  const adapted = directory.adapted?.().find((one) => one.name === name)
  return {
    id: name,
    object: 'model',
    created: started,
    owned_by: 'cllm',
    // with its own name, as llama-server has it
    aliases: [name, ...aliases],
    tags,
    ...(adapted !== undefined && { parent: adapted.model }),
    status: { value: state },
    ...(info === undefined ? {} : { meta: metaOf(info) }),
  }
}

/** What is known once the model was in memory. */
const metaOf = ({ model, limits }: EngineInfo) => ({
  architecture: model.architecture,
  n_params: model.parameters,
  n_vocab: model.vocabularySize,
  n_ctx: limits.contextSize,
  n_ctx_train: model.trainingContext,
  size: model.sizeBytes,
  quantization: model.quantization,
})
