/** A name without Ollama's `:latest`. */
export const untagged = (name: string): string => name.replace(/:latest$/, '')
