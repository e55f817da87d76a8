import type { EngineClient, EngineInfo, Prompt } from '@cllm/core'

/** A prompt as the model sees it: with the text of the token that begins it. */
export async function promptText(
  client: EngineClient,
  info: EngineInfo,
  prompt: Prompt,
): Promise<string> {
  const chat =
    'messages' in prompt ? await client.applyTemplate(prompt.messages, prompt.template) : undefined
  const given = 'messages' in prompt ? chat! : prompt
  const text = 'text' in given ? given.text : await client.detokenize(given.tokens)
  const bosToken = String(info.model.details?.['bosToken'] ?? '')
  if (bosToken === '' || text.startsWith(bosToken)) return text
  const tokens = 'tokens' in given ? given.tokens : await client.tokenize('')
  const [bos] = await client.tokenize(bosToken, { addBos: false })
  if (bos === undefined || tokens[0] !== bos) return text
  return `${bosToken}${text.startsWith(' ') ? '' : ' '}${text}`
}

/** The text of the token that each prompt begins with; empty where the model wants none. */
export async function bosText(client: EngineClient): Promise<string> {
  const { model } = await client.info()
  const text = String(model.details?.['bosToken'] ?? '')
  if (text === '') return ''
  const [[first], [bos]] = await Promise.all([
    client.tokenize(''),
    client.tokenize(text, { addBos: false }),
  ])
  return first !== undefined && first === bos ? text : ''
}
