import type { EngineClient, GenerateRequest, Prompt, TokenId } from '@cllm/core'
import { throwInFieldNames } from '../fields/generation-fields.js'
import { unsupported } from './refusals.js'

/** The text of a prompt, in whichever form it came. */
export async function promptText(client: EngineClient, prompt: Prompt): Promise<string> {
  if ('text' in prompt) return prompt.text
  if ('tokens' in prompt) return await client.detokenize(prompt.tokens).catch(throwInFieldNames)
  return (await client.applyTemplate(prompt.messages, prompt.template)).text
}

/** The same as the model sees it: with the text of the token that begins it, and of special ones among its tokens. */
export async function promptTextWithBos(client: EngineClient, prompt: Prompt): Promise<string> {
  if ('tokens' in prompt) return await spelledText(client, prompt.tokens).catch(throwInFieldNames)
  const [text, one] = await Promise.all([promptText(client, prompt), client.tokenize('a')])
  // of some tokenizers with a space behind it
  const spelled = await spelledText(client, one)
  const before = spelled.slice(0, spelled.lastIndexOf('a'))
  const bos = before.trimEnd()
  if (text === '') return bos
  return bos !== '' && text.startsWith(bos) ? text : `${before}${text}`
}

/** The text of the token that each prompt begins with; empty where the model wants none. */
export const bosText = async (client: EngineClient): Promise<string> =>
  await spelledText(client, (await client.tokenize('')).slice(0, 1))

/** Whether the tokens of a prompt begin with those that a model puts in front of each. */
export const beginsWith = (tokens: readonly TokenId[], start: readonly TokenId[]): boolean =>
  start.every((token, index) => tokens[index] === token)

/** The tokens of a prompt, in whichever form it came. */
export async function promptTokens(client: EngineClient, prompt: Prompt) {
  if ('tokens' in prompt) return prompt.tokens
  if ('text' in prompt) return await client.tokenize(prompt.text)
  return (await client.applyTemplate(prompt.messages, prompt.template)).tokens
}

/** Tokens of a call: more would hold up the engine. */
const piecesOfCall = 4096

/** What each token stands for, until the client leaves; of a part of a character its bytes. */
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

/** The bytes of a token, which may be those of a part of a character. */
export const bytesOf = (piece: string | number[]): Buffer => Buffer.from(piece as string)

/** The text of tokens, special ones included, until the client leaves. */
export async function spelledText(
  client: EngineClient,
  tokens: readonly TokenId[],
  signal?: AbortSignal,
): Promise<string> {
  const pieces = await piecesOf(client, tokens, signal)
  return Buffer.concat(pieces.map(bytesOf)).toString()
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
