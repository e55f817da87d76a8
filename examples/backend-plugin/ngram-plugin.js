// @ts-check
import { readFileSync } from 'node:fs'
import { defineBackend, definePlugin } from '@cllm/core'
import { z } from 'zod'
import { ngramBackend } from './ngram-backend.js'

/** The backend under a name: `cllm serve --plugin ./ngram-plugin.js --backend ngram --model FILE`. */
export const ngram = defineBackend({
  name: 'ngram',
  doc: 'Continues prompts as a text file does, which is its model.',
  options: z.object({
    modelPath: z.string(),
    modelId: z.string().default('ngram'),
    slots: z.int().min(1).default(4),
    contextSize: z.int().min(1).default(512),
    batchSize: z.int().min(1).default(256),
    order: z.int().min(0).max(32).default(5),
  }),
  create({ modelPath, modelId, ...options }, { logger }) {
    const text = readFileSync(modelPath, 'utf8')
    logger.info({ bytes: text.length, order: options.order }, 'learning from the text')
    return ngramBackend({ text, id: modelId, ...options })
  },
})

export default definePlugin({
  name: 'ngram',
  apiVersion: 1,
  register: (host) => host.registerBackend(ngram),
})
