/** The built-in APIs, which `--protocols` chooses from. */
export const protocolNames = ['native', 'openai', 'admin'] as const

/** One of {@link protocolNames}. */
export type ProtocolName = (typeof protocolNames)[number]
