// @ts-check
import { defineBackend, definePlugin } from '@cllm/core'
import { FakeBackend } from '@cllm/testing'

/** A backend that looks for encodings in the files that it is given, and writes those that it makes. */
const filing = defineBackend({
  name: 'filing',
  doc: 'Keeps encodings in files.',
  options: {
    parse: (value) => /** @type {object} */ (value),
    shape: { modelPath: null, modelId: null, mmprojPath: null },
  },
  create() {
    const backend = new FakeBackend({ images: true })
    const media = /** @type {import('@cllm/core').MediaEncoder} */ (backend.media)
    const prepare = media.prepare.bind(media)
    media.keepIn = (files) => {
      media.prepare = async (file, scope) => {
        const job = await prepare(file, scope)
        if (!('run' in job)) return job
        const head = { key: 'fake', scope: job.key, partial: false, tokens: [] }
        const encoded = await job.run(new AbortController().signal)
        if ((await files.find?.(head)) !== undefined) return encoded
        await files.write(head, new Uint8Array(4))
        return { ...job, run: async () => encoded }
      }
    }
    return backend
  },
})

export default definePlugin({
  name: 'filing',
  apiVersion: 1,
  register: (host) => host.registerBackend(filing),
})
