import type { EngineClient, Prompt } from '@cllm/core'
import { unsupported } from './refusals.js'

/**
 * A prompt whose continuation fills the gap between a text and a suffix, as the model was trained.
 *
 * @throws `unsupported` for a model that cannot fill gaps
 */
export async function gapPrompt(
  client: EngineClient,
  before: Prompt,
  suffix: string,
): Promise<Prompt> {
  const { infill, model } = await client.info()
  if (infill === undefined) {
    throw unsupported(
      'suffix',
      `${model.id} does not support insert: it was not trained to fill gaps`,
    )
  }
  if ('messages' in before) throw unsupported('suffix', 'not together with messages')
  const encode = (text: string) => client.tokenize(text, { addBos: false, special: false })
  const [bos, behind] = await Promise.all([client.tokenize(''), encode(suffix)])
  const prefix = 'tokens' in before ? before.tokens : await encode(before.text)
  return {
    tokens: [...bos, infill.prefix, ...prefix, infill.suffix, ...behind, infill.middle],
  }
}
