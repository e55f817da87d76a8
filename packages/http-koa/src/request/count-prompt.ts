import type { EngineClient, GenerateRequest } from '@cllm/core'

/** How many tokens the prompt of a request has, in the words of OpenAI's Responses API. */
export async function countPrompt(
  client: EngineClient,
  { prompt }: Pick<GenerateRequest, 'prompt'>,
): Promise<{ readonly input_tokens: number }> {
  if ('tokens' in prompt) return { input_tokens: prompt.tokens.length }
  const tokens =
    'text' in prompt
      ? await client.tokenize(prompt.text)
      : (await client.applyTemplate(prompt.messages, prompt.template)).tokens
  return { input_tokens: tokens.length }
}
