import { join } from 'node:path'
import t, { type Test } from 'tap'
import { projectorBeside } from '../../src/models/model-files.js'

const beside = (t: Test, files: readonly string[], model: string): string | undefined => {
  const folder = t.testdir(Object.fromEntries(files.map((file) => [file, ''])))
  return projectorBeside(join(folder, model))?.slice(folder.length + 1)
}

t.test('the projector beside a model', async (t) => {
  const cases: [model: string, found: string | undefined, ...others: string[]][] = [
    ['SmolVLM2-2.2B-Instruct-Q4_K_M.gguf', 'mmproj-SmolVLM2-2.2B-Instruct-Q8_0.gguf', 'a.gguf'],
    ['TEA-ASR-1.1.Q6_K.gguf', 'TEA-ASR-1.1.mmproj-Q8_0.gguf', 'mmproj-b.gguf'],
    ['Ministral-8B-Q4_K_M.gguf', 'Ministral-8B-BF16-mmproj.gguf', 'mmproj-F16.gguf'],
    ['big-IQ2_XXS-00001-of-00002.gguf', 'mmproj-big-f16.gguf', 'big-IQ2_XXS-00002-of-00002.gguf'],
    ['small.gguf', 'mmproj-small.gguf', 'mmproj-small-f16.gguf'],
    ['gemma-3-4b-it-Q4_K_M.gguf', 'mmproj-model-f16.gguf', 'gemma-3-4b-it-Q8_0.gguf'],
    ['gemma-3-4b-it-Q4_K_M.gguf', undefined, 'mmproj-model-f16.gguf', 'other.gguf'],
    ['a.gguf', undefined, 'mmproj-model-f16.gguf', 'mmproj-model-q8_0.gguf'],
    ['a.gguf', undefined, 'a-mmproj.txt'],
    ['mmproj-a.gguf', undefined, 'mmproj-a-f16.gguf', 'a.gguf'],
  ]
  for (const [model, found, ...others] of cases) {
    const files = [model, ...others, ...(found === undefined ? [] : [found])]
    t.equal(beside(t, files, model), found, files.join())
  }
  t.equal(projectorBeside('/nowhere/a.gguf'), undefined)
})
