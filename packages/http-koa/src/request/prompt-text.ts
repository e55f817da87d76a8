import type { EngineClient, GenerateRequest, Prompt, TokenId } from '@cllm/core'
import { throwInFieldNames } from '../fields/generation-fields.js'
import { unsupported } from './refusals.js'

/** The text of a prompt of any form. */
export async function promptText(client: EngineClient, prompt: Prompt): Promise<string> {
  if ('text' in prompt) return prompt.text
  if ('tokens' in prompt) return await client.detokenize(prompt.tokens).catch(throwInFieldNames)
  return (await client.applyTemplate(prompt.messages, prompt.template)).text
}

/** The text of a prompt as the model sees it: including the BOS token, and special tokens among its tokens. */
export async function promptTextWithBos(client: EngineClient, prompt: Prompt): Promise<string> {
  if ('tokens' in prompt) return await spelledText(client, prompt.tokens).catch(throwInFieldNames)
  const [text, one] = await Promise.all([promptText(client, prompt), client.tokenize('a')])
  // some tokenizers write a space behind it
  const spelled = await spelledText(client, one)
  const before = spelled.slice(0, spelled.lastIndexOf('a'))
  const bos = before.trimEnd()
  if (text === '') return bos
  return bos !== '' && text.startsWith(bos) ? text : `${before}${text}`
}

/** The text of the BOS token; empty for models without one. */
export const bosText = async (client: EngineClient): Promise<string> =>
  await spelledText(client, (await client.tokenize('')).slice(0, 1))

/** Whether a prompt's tokens begin with these. */
export const beginsWith = (tokens: readonly TokenId[], start: readonly TokenId[]): boolean =>
  start.every((token, index) => tokens[index] === token)

/** The tokens of a prompt of any form. */
export async function promptTokens(client: EngineClient, prompt: Prompt) {
  if ('tokens' in prompt) return prompt.tokens
  if ('text' in prompt) return await client.tokenize(prompt.text)
  return (await client.applyTemplate(prompt.messages, prompt.template)).tokens
}

/** The most tokens of one call to the engine: more would delay its steps. */
const piecesOfCall = 4096

/** The text of each token, or its bytes if it is a part of a character. Stops when the client leaves. */
export async function piecesOf(
  client: EngineClient,
  tokens: readonly TokenId[],
  signal?: AbortSignal,
) {
  const pieces: (string | number[])[] = []
  for (let at = 0; at < tokens.length; at += piecesOfCall) {
    if (signal?.aborted === true) break
    pieces.push(...(await client.pieces(tokens.slice(at, at + piecesOfCall))))
  }
  return pieces
}

/** The bytes of a token, which may be a part of a character. */
export const bytesOf = (piece: string | number[]): Buffer => Buffer.from(piece as string)

/** The text of tokens, including special ones. Stops when the client leaves. */
export async function spelledText(
  client: EngineClient,
  tokens: readonly TokenId[],
  signal?: AbortSignal,
): Promise<string> {
  const pieces = await piecesOf(client, tokens, signal)
  return Buffer.concat(pieces.map(bytesOf)).toString()
}

/** The number of tokens of a request's prompt, in the form of OpenAI's Responses API. */
export const countPrompt = async (
  client: EngineClient,
  { prompt }: Pick<GenerateRequest, 'prompt'>,
) => ({ input_tokens: (await promptTokens(client, prompt)).length })

/**
 * A fill-in-the-middle prompt: its continuation fills the gap between a text and a suffix.
 *
 * @throws `unsupported` for a model that cannot do that
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
