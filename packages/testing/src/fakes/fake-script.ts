import type { Tokenizer } from '@cllm/core'
import type { FakeScript } from './fake-model.js'
import { fakeTokenIds } from './fake-vocabulary.js'

/**
 * A script for {@link FakeBackend}: after one of these prompts comes its answer, then the end. What
 * follows other prompts is left to the fake model.
 *
 * @param answers by prompt, as `encode` takes it (special tokens in it are read as such)
 */
export function scriptAnswers(
  tokenizer: Tokenizer,
  answers: Readonly<Record<string, string>>,
): FakeScript {
  const scripts = Object.entries(answers).map(([prompt, answer]) => ({
    prompt: tokenizer.encode(prompt),
    answer: tokenizer.encode(answer, { addBos: false }),
  }))
  return (content) => {
    for (const { prompt, answer } of scripts) {
      const whole = [...prompt, ...answer, fakeTokenIds.endOfSequence]
      if (content.length < prompt.length || content.length >= whole.length) continue
      if (content.every((token, index) => token === whole[index])) return whole[content.length]
    }
    return undefined
  }
}
