/** Anthropic's documented defaults, by route; `max_tokens` is required. */
export const anthropicDefaults = Object.freeze({
  '/v1/messages': { maxTokens: Infinity, sampling: Object.freeze({ temperature: 1 }) },
})
