const sampling = Object.freeze({ temperature: 0.8, topK: 40, topP: 0.9 })

/** Ollama's documented defaults, by route; penalties are off. */
export const ollamaDefaults = Object.freeze({
  '/api/generate': { maxTokens: Infinity, sampling },
  '/api/chat': { maxTokens: Infinity, sampling },
})
