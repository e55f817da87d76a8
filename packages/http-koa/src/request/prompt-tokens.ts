import type { EngineClient, GenerateRequest, Prompt, TokenId } from '@cllm/core'

/** The tokens of a prompt, in whichever form it came. */
export async function promptTokens(
  client: EngineClient,
  prompt: Prompt,
): Promise<readonly TokenId[]> {
  if ('tokens' in prompt) return prompt.tokens
  if ('text' in prompt) return await client.tokenize(prompt.text)
  return (await client.applyTemplate(prompt.messages, prompt.template)).tokens
}

/** How many tokens the prompt of a request has, in the words of OpenAI's Responses API. */
export async function countPrompt(
  client: EngineClient,
  { prompt }: Pick<GenerateRequest, 'prompt'>,
): Promise<{ readonly input_tokens: number }> {
  return { input_tokens: (await promptTokens(client, prompt)).length }
}
