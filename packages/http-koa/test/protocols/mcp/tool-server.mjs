// An MCP server over stdio, as `mcp.test.ts` starts it.
import { McpServer } from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const server = new McpServer({ name: 'weather', version: '1.0.0' })
server.registerTool(
  'forecast',
  {
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.enum(['Rome', 'Oslo']) }),
  },
  ({ city }) => ({
    content: [{ type: 'text', text: `${city}: sunny, ${process.env.SCALE ?? ''}` }],
  }),
)
// A small model has no room for more.
if (process.argv[2] !== 'forecast') more()
function more() {
  server.registerTool(
    'secrets',
    { description: 'What it was given', inputSchema: z.object({}) },
    () => ({
      content: [{ type: 'text', text: JSON.stringify(Object.keys(process.env)) }],
    }),
  )
  server.registerTool('end', { description: 'Ends the server', inputSchema: z.object({}) }, () =>
    process.exit(1),
  )
}
await server.connect(new StdioServerTransport())
