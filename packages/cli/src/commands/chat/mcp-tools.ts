import { CllmError } from '@cllm/core'
import type { ServerClient } from '../server/server-client.js'
import type { ChatTerminal } from './chat-terminal.js'
import type { Tools } from './conversation.js'

/**
 * The tools of the server's MCP servers, each call of which the person at the terminal agrees to or not.
 *
 * @throws CllmError where the server has none
 */
export async function mcpTools(
  client: ServerClient,
  signal: AbortSignal,
  terminal: Pick<ChatTerminal, 'consent'>,
): Promise<Tools> {
  const { data } = (await client.get('/mcp/tools', signal)) as {
    readonly data: readonly { name: string; description: string; parameters: object }[]
  }
  return {
    offered: data.map(({ name, description, parameters }) => {
      return { type: 'function', function: { name, description, parameters } }
    }),
    async run({ name, arguments: given }, stopped) {
      if (!(await terminal.consent(`Run ${name} ${given}?`))) return 'The user refused this call.'
      try {
        const body = { name, arguments: JSON.parse(given === '' ? '{}' : given) as unknown }
        const { content } = (await client.send('POST', '/mcp/call', body, stopped)) as {
          readonly content: string
        }
        return content
      } catch (error) {
        if (stopped.aborted) throw error
        // The model may call it in another way.
        return CllmError.from(error).message
      }
    },
  }
}
