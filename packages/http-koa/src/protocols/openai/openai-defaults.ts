const sampling = Object.freeze({ temperature: 1 })

/** OpenAI's documented defaults, by route, and those of Mistral's model for code; penalties are off. */
export const openAiDefaults = Object.freeze({
  '/v1/chat/completions': { maxTokens: Infinity, sampling },
  '/v1/responses': { maxTokens: Infinity, sampling },
  '/v1/completions': { maxTokens: 16, sampling },
  '/v1/fim/completions': { maxTokens: Infinity, sampling: { temperature: 0.3 } },
})
