import type { SamplingParams } from '@cllm/core'
import type { CatalogEntry, CatalogShape } from './catalog-entry.js'

/** The shape of a Qwen3 model. */
export const qwen3 = (
  layers: number,
  hiddenSize: number,
  feedForwardSize: number,
  attentionHeads: number,
  keyValueHeads = 8,
): CatalogShape => ({
  trainingContext: 40_960,
  vocabularySize: 151_936,
  layers,
  hiddenSize,
  feedForwardSize,
  attentionHeads,
  keyValueHeads,
  headSize: 128,
})

/** What Qwen recommends for its models when they think. */
export const qwen3Sampling: Partial<SamplingParams> = { temperature: 0.6, topP: 0.95, topK: 20 }

const gemmaSampling: Partial<SamplingParams> = { temperature: 1, topP: 0.95, topK: 64 }
const llamaSampling: Partial<SamplingParams> = { temperature: 0.6, topP: 0.9 }

type Published = Omit<CatalogEntry, 'file' | 'sources'> & {
  /** `owner/repository/file` */
  readonly from: string
  /** Default: the file's own name. */
  readonly file?: string
  /** Where its publisher's page says the file's SHA-256: that, and the commit that has it. */
  readonly pin?: { readonly commit: string; readonly sha256: string }
}

/** An entry by what is published of it; its size is about. */
const toEntry = ({ from, file, pin, ...entry }: Published): CatalogEntry => ({
  ...entry,
  file: file ?? from.slice(from.lastIndexOf('/') + 1),
  sources: [
    {
      kind: 'hugging-face',
      uri: `hf:${from}${pin === undefined ? '' : `#${pin.commit}`}`,
      bytes: entry.bytes,
      ...(pin === undefined ? {} : { sha256: pin.sha256 }),
    },
  ],
})

const apache = 'Apache-2.0'
const llama32 = 'LicenseRef-Llama-3.2'
const gemma = 'LicenseRef-Gemma'

const published = [
  {
    name: 'qwen3-1.7b',
    title: 'Qwen3 1.7B, Q4_K_M',
    licence: apache,
    bytes: 1.11e9,
    shape: qwen3(28, 2048, 6144, 16),
    sampling: qwen3Sampling,
    from: 'unsloth/Qwen3-1.7B-GGUF/Qwen3-1.7B-Q4_K_M.gguf',
  },
  {
    name: 'qwen3-4b',
    title: 'Qwen3 4B, Q4_K_M',
    licence: apache,
    bytes: 2.5e9,
    shape: qwen3(36, 2560, 9728, 32),
    sampling: qwen3Sampling,
    from: 'Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf',
  },
  {
    name: 'qwen3-8b',
    title: 'Qwen3 8B, Q4_K_M',
    licence: apache,
    bytes: 5.03e9,
    shape: qwen3(36, 4096, 12_288, 32),
    sampling: qwen3Sampling,
    from: 'Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf',
  },
  {
    name: 'qwen3-14b',
    title: 'Qwen3 14B, Q4_K_M',
    licence: apache,
    bytes: 9e9,
    shape: qwen3(40, 5120, 17_408, 40),
    sampling: qwen3Sampling,
    from: 'Qwen/Qwen3-14B-GGUF/Qwen3-14B-Q4_K_M.gguf',
  },
  {
    name: 'qwen3-30b-a3b',
    title: 'Qwen3 30B, 3B of it active, Q4_K_M',
    licence: apache,
    bytes: 18.6e9,
    shape: qwen3(48, 2048, 6144, 32, 4),
    sampling: qwen3Sampling,
    from: 'Qwen/Qwen3-30B-A3B-GGUF/Qwen3-30B-A3B-Q4_K_M.gguf',
  },
  {
    name: 'gemma-3-1b',
    title: 'Gemma 3 1B, Q4_K_M',
    licence: gemma,
    bytes: 0.806e9,
    shape: {
      trainingContext: 32_768,
      vocabularySize: 262_144,
      layers: 26,
      hiddenSize: 1152,
      feedForwardSize: 6912,
      attentionHeads: 4,
      keyValueHeads: 1,
      headSize: 256,
    },
    sampling: gemmaSampling,
    from: 'ggml-org/gemma-3-1b-it-GGUF/gemma-3-1b-it-Q4_K_M.gguf',
  },
  {
    name: 'gemma-3-4b',
    title: 'Gemma 3 4B, Q4_K_M',
    licence: gemma,
    bytes: 2.49e9,
    shape: {
      trainingContext: 131_072,
      vocabularySize: 262_208,
      layers: 34,
      hiddenSize: 2560,
      feedForwardSize: 10_240,
      attentionHeads: 8,
      keyValueHeads: 4,
      headSize: 256,
    },
    sampling: gemmaSampling,
    from: 'ggml-org/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf',
  },
  {
    name: 'llama-3.2-1b',
    title: 'Llama 3.2 1B, Q4_K_M',
    licence: llama32,
    bytes: 0.808e9,
    shape: {
      trainingContext: 131_072,
      vocabularySize: 128_256,
      layers: 16,
      hiddenSize: 2048,
      feedForwardSize: 8192,
      attentionHeads: 32,
      keyValueHeads: 8,
      headSize: 64,
    },
    sampling: llamaSampling,
    from: 'bartowski/Llama-3.2-1B-Instruct-GGUF/Llama-3.2-1B-Instruct-Q4_K_M.gguf',
    pin: {
      commit: 'd52af3776f99ddf220e5ffd3f93b2a4e4df105be',
      sha256: '6f85a640a97cf2bf5b8e764087b1e83da0fdb51d7c9fab7d0fece9385611df83',
    },
  },
  {
    name: 'llama-3.2-3b',
    title: 'Llama 3.2 3B, Q4_K_M',
    licence: llama32,
    bytes: 2.02e9,
    shape: {
      trainingContext: 131_072,
      vocabularySize: 128_256,
      layers: 28,
      hiddenSize: 3072,
      feedForwardSize: 8192,
      attentionHeads: 24,
      keyValueHeads: 8,
      headSize: 128,
    },
    sampling: llamaSampling,
    from: 'bartowski/Llama-3.2-3B-Instruct-GGUF/Llama-3.2-3B-Instruct-Q4_K_M.gguf',
    pin: {
      commit: 'c346bfc2029e79ba6d7edf026cf01fe44242db0d',
      sha256: '6c1a2b41161032677be168d354123594c0e6e67d2b9227c84f296ad037c728ff',
    },
  },
  {
    name: 'llama-3.1-8b',
    title: 'Llama 3.1 8B, Q4_K_M',
    licence: 'LicenseRef-Llama-3.1',
    bytes: 4.92e9,
    shape: {
      trainingContext: 131_072,
      vocabularySize: 128_256,
      layers: 32,
      hiddenSize: 4096,
      feedForwardSize: 14_336,
      attentionHeads: 32,
      keyValueHeads: 8,
      headSize: 128,
    },
    sampling: llamaSampling,
    from: 'bartowski/Meta-Llama-3.1-8B-Instruct-GGUF/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf',
  },
  {
    name: 'mistral-7b',
    title: 'Mistral 7B v0.3, Q4_K_M',
    licence: apache,
    bytes: 4.37e9,
    shape: {
      trainingContext: 32_768,
      vocabularySize: 32_768,
      layers: 32,
      hiddenSize: 4096,
      feedForwardSize: 14_336,
      attentionHeads: 32,
      keyValueHeads: 8,
      headSize: 128,
    },
    sampling: { temperature: 0.7 },
    from: 'bartowski/Mistral-7B-Instruct-v0.3-GGUF/Mistral-7B-Instruct-v0.3-Q4_K_M.gguf',
  },
  {
    name: 'gpt-oss-20b',
    title: 'gpt-oss 20B, 3.6B of it active, MXFP4',
    licence: apache,
    bytes: 12.1e9,
    shape: {
      trainingContext: 131_072,
      vocabularySize: 201_088,
      layers: 24,
      hiddenSize: 2880,
      feedForwardSize: 2880,
      attentionHeads: 64,
      keyValueHeads: 8,
      headSize: 64,
    },
    sampling: { temperature: 1, topP: 1, topK: 0 },
    from: 'ggml-org/gpt-oss-20b-GGUF/gpt-oss-20b-mxfp4.gguf',
  },
  {
    name: 'qwen3-embedding-0.6b',
    title: 'Qwen3 Embedding 0.6B, Q8_0',
    role: 'embedding',
    licence: apache,
    bytes: 0.639e9,
    shape: { ...qwen3(28, 1024, 3072, 16), trainingContext: 32_768 },
    from: 'Qwen/Qwen3-Embedding-0.6B-GGUF/Qwen3-Embedding-0.6B-Q8_0.gguf',
  },
  {
    name: 'embeddinggemma-300m',
    title: 'EmbeddingGemma 300M, Q4_0',
    role: 'embedding',
    licence: gemma,
    bytes: 0.278e9,
    from: 'ggml-org/embeddinggemma-300M-qat-q4_0-GGUF/embeddinggemma-300M-qat-Q4_0.gguf',
  },
  {
    name: 'nomic-embed-text',
    title: 'Nomic Embed Text v1.5, Q8_0',
    role: 'embedding',
    licence: apache,
    bytes: 0.146e9,
    from: 'nomic-ai/nomic-embed-text-v1.5-GGUF/nomic-embed-text-v1.5.Q8_0.gguf',
  },
  {
    name: 'jina-reranker-tiny',
    title: 'Jina Reranker v1 Tiny (English), F16',
    role: 'rerank',
    licence: apache,
    bytes: 67e6,
    file: 'jina-reranker-v1-tiny-en-f16.gguf',
    from: 'ggml-org/models/jina-reranker-v1-tiny-en/ggml-model-f16.gguf',
  },
] satisfies readonly Published[]

/**
 * Models by the names under which their files are published. Where the hash is not known here, what is
 * fetched is compared with what the host says of the file.
 */
export const moreModels: readonly CatalogEntry[] = published.map(toEntry)
