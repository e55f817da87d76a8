/** The built-in APIs, which `--protocols` chooses from. */
export const protocolNames = [
  'native',
  'openai',
  'ollama',
  'llama-server',
  'models',
  'openapi',
  'admin',
  'metrics',
] as const

/** One of {@link protocolNames}. */
export type ProtocolName = (typeof protocolNames)[number]
