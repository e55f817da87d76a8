import type { EngineClient, EngineInfo, GenerateRequest, Prompt, TokenId } from '@cllm/core'
import { throwInFieldNames } from '../fields/generation-fields.js'
import { unsupported } from './refusals.js'

/** The text of a prompt, in whichever form it came. */
export const promptText = async (client: EngineClient, prompt: Prompt): Promise<string> =>
  (await textAndTokens(client, prompt)).text

/** The same as the model sees it: with the text of the token that begins it. */
export async function promptTextWithBos(client: EngineClient, info: EngineInfo, prompt: Prompt) {
  const { text, tokens } = await textAndTokens(client, prompt)
  if (text.startsWith(info.model.details?.bosToken ?? '')) return text
  const bos = await bosOf(client, info, tokens)
  if (bos === '') return text
  return `${bos}${text.startsWith(' ') ? '' : ' '}${text}`
}

/** The text of the token that each prompt begins with; empty where the model wants none. */
export const bosText = async (client: EngineClient): Promise<string> =>
  await bosOf(client, await client.info())

/** The text of the token with which these tokens begin, by default those of an empty text; empty without one. */
async function bosOf(client: EngineClient, { model }: EngineInfo, tokens?: readonly TokenId[]) {
  const text = model.details?.bosToken ?? ''
  if (text === '') return ''
  const [first] = tokens ?? (await client.tokenize(''))
  const [bos] = await client.tokenize(text, { addBos: false })
  return bos !== undefined && bos === first ? text : ''
}

/** Whether the tokens of a prompt begin with those that a model puts in front of each. */
export const beginsWith = (tokens: readonly TokenId[], start: readonly TokenId[]): boolean =>
  start.every((token, index) => tokens[index] === token)

/** Without tokens the engine tokenizes the text. */
async function textAndTokens(
  client: EngineClient,
  prompt: Prompt,
): Promise<{ readonly text: string; readonly tokens?: readonly TokenId[] }> {
  if ('messages' in prompt) return await client.applyTemplate(prompt.messages, prompt.template)
  if ('text' in prompt) return prompt
  const { tokens } = prompt
  return { text: await client.detokenize(tokens).catch(throwInFieldNames), tokens }
}

/** The tokens of a prompt, in whichever form it came. */
export async function promptTokens(client: EngineClient, prompt: Prompt) {
  if ('tokens' in prompt) return prompt.tokens
  if ('text' in prompt) return await client.tokenize(prompt.text)
  return (await client.applyTemplate(prompt.messages, prompt.template)).tokens
}

/** How many tokens the prompt of a request has, in the words of OpenAI's Responses API. */
export const countPrompt = async (
  client: EngineClient,
  { prompt }: Pick<GenerateRequest, 'prompt'>,
) => ({ input_tokens: (await promptTokens(client, prompt)).length })

/**
 * A prompt whose continuation fills the gap between a text and a suffix, as the model was trained.
 *
 * @throws `unsupported` for a model that cannot fill gaps
 */
export async function gapPrompt(client: EngineClient, before: Prompt, suffix: string) {
  const { infill, model } = await client.info()
  if (infill === undefined) {
    const message = `${model.id} does not support insert: it was not trained to fill gaps`
    throw unsupported('suffix', message)
  }
  if ('messages' in before) throw unsupported('suffix', 'not together with messages')
  const encode = (text: string) => client.tokenize(text, { addBos: false, special: false })
  const [bos, behind] = await Promise.all([client.tokenize(''), encode(suffix)])
  const prefix = 'tokens' in before ? before.tokens : await encode(before.text)
  return { tokens: [...bos, infill.prefix, ...prefix, infill.suffix, ...behind, infill.middle] }
}
