import type { EngineClient, EngineInfo, Prompt } from '@cllm/core'

/** A prompt as the model sees it: with the text of the token that begins it. */
export async function promptText(
  client: EngineClient,
  info: EngineInfo,
  prompt: Prompt,
): Promise<string> {
  if ('messages' in prompt)
    return (await client.applyTemplate(prompt.messages, prompt.template)).text
  const text = 'text' in prompt ? prompt.text : await client.detokenize(prompt.tokens)
  const bosText = String(info.model.details?.['bosToken'] ?? '')
  if (bosText === '') return text
  const tokens = 'tokens' in prompt ? prompt.tokens : await client.tokenize('')
  const [bos] = await client.tokenize(bosText, { addBos: false })
  if (bos === undefined || tokens[0] !== bos) return text
  return `${bosText}${text.startsWith(' ') ? '' : ' '}${text}`
}
