import { type AdaptedModel, defined, type EngineInfo } from '@cllm/core'
import type { Answer, Call } from '../../routes/route.js'
import { peekInfo } from '../../engines/model-queries.js'
import { isAnthropic } from '../../request/generation.js'
import { type OpenAiContext, partOf } from './openai-answer.js'

/** `GET /v1/models`, in Anthropic's form for its clients. */
export async function listModels(call: Call, openAi: OpenAiContext): Promise<Answer> {
  const { engines } = call
  const adapted = engines.adapted?.() ?? []
  const names = [...engines.list(), ...adapted.map(({ name }) => name)]
  const data = await Promise.all(names.map(async (id) => await describe(call, id, openAi, adapted)))
  if (isAnthropic(call)) return partOf(data.map(anthropicForm), false)
  return { object: 'list', data, models: data.map(llamaForm) }
}

type Described = Pick<Awaited<ReturnType<typeof describe>>, 'id' | 'architecture'>

/** What llama-server's clients look at to see whether a model takes images or sounds. */
export function llamaForm({ id, architecture }: Described) {
  const takesMore = architecture !== undefined && architecture.input_modalities.length > 1
  return { name: id, model: id, capabilities: ['completion', ...(takesMore ? ['multimodal'] : [])] }
}

/** `GET /v1/models/{id}`; ids with slashes too. */
export async function showModel(call: Call, openAi: OpenAiContext): Promise<Answer> {
  const adapted = call.engines.adapted?.() ?? []
  const model = await describe(call, call.params['id'] ?? '', openAi, adapted)
  return isAnthropic(call) ? anthropicForm(model) : model
}

const anthropicForm = ({ id, created, meta }: Awaited<ReturnType<typeof describe>>) => ({
  type: 'model',
  id,
  display_name: id,
  created_at: new Date(created * 1000).toISOString(),
  max_input_tokens: meta?.n_ctx ?? null,
  max_tokens: meta?.n_ctx ?? null,
  capabilities: null,
  lifecycle: 'active',
  deprecated_at: null,
  retires_at: null,
  line: null,
})

async function describe(
  { engines }: Call,
  id: string,
  { started }: OpenAiContext,
  adapted: readonly AdaptedModel[],
) {
  const { name, state, aliases = [], tags = [] } = engines.status(id)
  const info = await peekInfo(engines, name)
  const parent = adapted.find((one) => one.name === name)?.model
  return {
    id: name,
    object: 'model',
    created: started,
    owned_by: 'cllm',
    // including its own name, as in llama-server
    aliases: [name, ...aliases],
    tags,
    ...defined({ parent }),
    status: { value: state },
    ...(info === undefined ? {} : { architecture: modalitiesOf(info), meta: metaOf(info) }),
  }
}

/** The modalities in OpenRouter's form, which the page, llama-server's and other clients know. */
export const modalitiesOf = ({ model: { images, audio } }: EngineInfo) => ({
  input_modalities: [
    'text',
    ...(images === true ? ['image'] : []),
    ...(audio === true ? ['audio'] : []),
  ],
  output_modalities: ['text'],
})

/** The metadata that is known once the model was in memory. */
const metaOf = ({ model, limits }: EngineInfo) => ({
  architecture: model.architecture,
  n_params: model.parameters,
  n_vocab: model.vocabularySize,
  n_ctx: limits.contextSize,
  n_ctx_train: model.trainingContext,
  size: model.sizeBytes,
  quantization: model.quantization,
})
