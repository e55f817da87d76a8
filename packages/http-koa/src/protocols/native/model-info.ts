import type { EngineInfo } from '@cllm/core'
import type { Answer, Call } from '../../routes/route.js'
import { infoOf, type ModelQuery } from '../../engines/model-queries.js'
import { inSnakeCase } from '../../fields/fields.js'

const families = [
  'qwen',
  'deepseek',
  'llama',
  'mistral',
  'phi',
  'gemma',
  'yi',
  'baichuan',
  'chatglm',
  'internlm',
]

/** `GET /model/info`. A detail that the backend does not report is null. */
export async function modelInfo(call: Call<unknown, ModelQuery>): Promise<Answer> {
  return { success: true, data: describeModel(await infoOf(call.engines, call.query.model)) }
}

function describeModel({ model, limits }: EngineInfo) {
  const detail = (key: string) => model.details?.[key] ?? null
  return {
    model_path: model.path ?? null,
    model_name: model.id,
    model_family: modelFamily(model.id, model.architecture),
    model_type: model.architecture,
    vocab_size: model.vocabularySize,
    tokenizer_vocab_size: model.vocabularySize,
    hidden_size: detail('hiddenSize'),
    num_layers: detail('layers'),
    num_attention_heads: detail('attentionHeads'),
    num_key_value_heads: detail('keyValueHeads'),
    max_sequence_length: limits.contextSize,
    intermediate_size: detail('feedForwardSize'),
    rope_theta: detail('ropeTheta'),
    rms_norm_eps: detail('rmsNormEpsilon'),
    quantization: {
      enabled: !/^(f16|f32|bf16|)$/i.test(model.quantization),
      type: model.quantization,
    },
    llama_cpp: {
      batch_size: limits.batchSize,
      num_threads: detail('threads'),
      gpu_layers: detail('gpuLayers'),
      use_mmap: detail('mmap'),
      use_mlock: detail('mlock'),
    },
    use_kv_cache: true,
    parameters: model.parameters,
    size_bytes: model.sizeBytes,
    training_context: model.trainingContext,
    slots: limits.slots,
    // what its file, or the catalog, recommends for what requests leave out
    sampling: inSnakeCase(model.sampling ?? {}),
  }
}

/** By name first: a model may use another family's architecture. */
function modelFamily(id: string, architecture: string): string {
  const has = (text: string) => families.find((family) => text.toLowerCase().includes(family))
  return has(id) ?? has(architecture) ?? 'unknown'
}
