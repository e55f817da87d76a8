// @ts-check
import { appendFileSync } from 'node:fs'
import {
  ADMISSION,
  CllmError,
  definePlugin,
  ENGINE_OBSERVER,
  LOGGER,
  MODEL_SOURCE,
  TOKENIZER,
} from '@cllm/core'

/** One part of each kind that `serve-plugins.test.ts` asks for. */
export default definePlugin({
  name: 'parts',
  apiVersion: 1,
  options: {
    parse: (value) => /** @type {{ folder: string, seen: string }} */ (value),
  },
  register(host, { folder, seen }) {
    const note = (/** @type {string} */ line) => appendFileSync(seen, `${line}\n`)
    host.provide(TOKENIZER, 'lower-case', ({ original }) => {
      const tokenizer = original()
      return { ...tokenizer, encode: (text) => tokenizer.encode(text.toLowerCase()) }
    })
    host.provide(ADMISSION, 'short', ({ original }) => {
      const limits = original()
      return {
        checkCount: (arriving, now) => limits.checkCount(arriving, now),
        check(sequence, now) {
          if (sequence.promptTokens > 64) throw new CllmError('queue_full', 'too long for me')
          limits.check(sequence, now)
        },
      }
    })
    host.provide(LOGGER, 'notes', ({ original }) => {
      const logger = original()
      return {
        debug: (fields, message) => logger.debug(fields, message),
        info: (_, message) => note(`log ${process.pid} ${message}`),
        warn: (fields, message) => logger.warn(fields, message),
        error: (fields, message) => logger.error(fields, message),
      }
    })
    host.provide(ENGINE_OBSERVER, 'notes', () => ({ onStep: () => note('step') }))
    host.provide(MODEL_SOURCE, 'store', () => ({
      async fetch(spec, { onProgress }) {
        onProgress(1, 1)
        return { path: `${folder}/${spec}.txt` }
      },
    }))
  },
})
