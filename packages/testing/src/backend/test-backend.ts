import assert from 'node:assert/strict'
import type { Backend } from '@cllm/core'
import { checkAdapters, checkConstraints, checkEmbeddings } from './feature-checks.js'
import { BackendDriver } from './backend-driver.js'
import { checkLogprobs, checkScores } from './logprob-checks.js'
import { checkProcessors, checkSampling } from './sampling-checks.js'
import { checkSlots } from './slot-checks.js'
import { type TestContext, check } from '../test-context.js'
import { checkTokenizer } from './tokenizer-checks.js'

/** Options of {@link testBackend}. */
export interface TestBackendOptions {
  /**
   * Whether the same tokens give the very same next token in any slot, chunk and batch; default true.
   * Where a batch of another size rounds differently it is not so: then what would differ is run but
   * not compared.
   */
  readonly exact?: boolean
  /**
   * The file of an adapter of its model that changes what it says. Default: of adapters only that is
   * checked which needs none; a backend without adapters needs no more.
   */
  readonly adapter?: string
}

/**
 * The conformance suite of backends, tokenizer included. A few slots (two or more), a few hundred
 * tokens of context and a fast model make it quick; up to 512 tokens the context is also filled.
 *
 * @param make a loaded backend; the suite calls it once and disposes of what it returns
 */
export async function testBackend(
  t: TestContext,
  make: () => Backend | Promise<Backend>,
  options: TestBackendOptions = {},
): Promise<void> {
  const { exact = true, adapter } = options
  const backend = await make()
  await t.test(`backend ${backend.model.architecture} ${backend.model.id}`, async (t) => {
    try {
      await check(t, 'describes itself', () => assertDescription(backend))
      await checkTokenizer(t, backend)
      const driver = new BackendDriver(t, backend, exact)
      if (backend.capabilities.generates !== false) {
        await checkSlots(driver)
        await checkSampling(driver)
        await checkLogprobs(driver)
        await checkConstraints(driver)
        await checkProcessors(driver)
        await checkScores(driver)
        await checkAdapters(driver, adapter)
      }
      await checkEmbeddings(driver)
    } finally {
      await check(t, 'can be disposed of', async () => await backend.dispose())
    }
  })
}

function assertDescription(backend: Backend): void {
  const { model, limits } = backend
  assert.equal(backend.specificationVersion, 1)
  assert.equal(model.vocabularySize, backend.tokenizer.vocabularySize)
  const counts = { ...limits, vocabularySize: model.vocabularySize }
  for (const [name, count] of Object.entries(counts)) {
    assert(Number.isInteger(count) && count > 0, `${name} is ${count}, expected 1 or more`)
  }
  assert(limits.contextSize >= 32, `contextSize is ${limits.contextSize}, the suite needs 32`)
  assert(typeof model.id === 'string' && model.id !== '', 'the model has no id')
  const { gpu, ...flags } = backend.capabilities
  assert(gpu === false || (typeof gpu === 'string' && gpu !== ''), `capabilities.gpu is ${gpu}`)
  for (const [name, flag] of Object.entries(flags)) {
    assert.equal(typeof flag, 'boolean', `capabilities.${name}`)
  }
}
