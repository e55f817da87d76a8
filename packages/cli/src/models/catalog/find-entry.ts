import type { CatalogEntry } from './catalog-entry.js'

/** What Ollama's library calls models of the catalog, for those who come from there. */
const ollamaNames: ReadonlyMap<string, string> = new Map([
  ['tinyllama', 'tinyllama-1.1b-chat'],
  ['tinyllama:1.1b', 'tinyllama-1.1b-chat'],
  ['qwen3', 'qwen3-8b'],
  ['qwen3:0.6b', 'qwen3-0.6b'],
  ['qwen3:1.7b', 'qwen3-1.7b'],
  ['qwen3:4b', 'qwen3-4b'],
  ['qwen3:8b', 'qwen3-8b'],
  ['qwen3:14b', 'qwen3-14b'],
  ['qwen3:30b', 'qwen3-30b-a3b'],
  ['gemma3', 'gemma-3-4b'],
  ['gemma3:1b', 'gemma-3-1b'],
  ['gemma3:4b', 'gemma-3-4b'],
  ['llama3.1', 'llama-3.1-8b'],
  ['llama3.1:8b', 'llama-3.1-8b'],
  ['llama3.2', 'llama-3.2-3b'],
  ['llama3.2:1b', 'llama-3.2-1b'],
  ['llama3.2:3b', 'llama-3.2-3b'],
  ['mistral', 'mistral-7b'],
  ['mistral:7b', 'mistral-7b'],
  ['gpt-oss', 'gpt-oss-20b'],
  ['gpt-oss:20b', 'gpt-oss-20b'],
  ['qwen3-embedding:0.6b', 'qwen3-embedding-0.6b'],
  ['embeddinggemma', 'embeddinggemma-300m'],
  ['embeddinggemma:300m', 'embeddinggemma-300m'],
])

/** The model of a catalog with this name, or that Ollama's library calls so; undefined: there is none. */
export function findEntry(
  catalog: readonly CatalogEntry[],
  name: string,
): CatalogEntry | undefined {
  const own = ollamaNames.get(name)
  return catalog.find((entry) => entry.name === name) ?? catalog.find((entry) => entry.name === own)
}
