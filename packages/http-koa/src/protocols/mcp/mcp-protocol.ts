import { within } from '@cllm/core'
import { z } from 'zod'
import { object } from '../../fields/fields.js'
import { bindRoutes, get, post } from '../../routes/route.js'
import type { Answer, Call, CallOf, Route } from '../../routes/route.js'
import { defineProtocol, MCP_SERVERS } from '../../routes/define-protocol.js'
import { McpServers, mcpServerSchema } from './mcp-servers.js'

const callSchema = z.object({
  name: z.string('the name of a tool').describe('As `GET /mcp/tools` lists it: `SERVER__TOOL`.'),
  arguments: object.default({}),
})

const routes: readonly Route<McpServers>[] = [
  get('/mcp/tools', 'user', 'The tools of the MCP servers that the configuration names', list),
  post('/mcp/call', 'user', 'Calls a tool, as a person has agreed to', call, { body: callSchema }),
]

/** Milliseconds that a server may take to start and list its tools; one that takes longer answers a later call. */
const listMs = 10_000

/** A server that cannot be reached, or does not answer for now, is told, and the others are listed. */
async function list({ clock }: Call, servers: McpServers): Promise<Answer> {
  const asked = servers.names.map(async (name) => {
    return await within(clock, listMs, servers.tools(name), () => {
      throw new Error(`The MCP server ${name} has not answered for ${listMs / 1000} s`)
    })
  })
  const all = await Promise.allSettled(asked)
  const problems = all.flatMap((each) =>
    each.status === 'rejected' ? [(each.reason as Error).message] : [],
  )
  return { data: all.flatMap((each) => (each.status === 'fulfilled' ? each.value : [])), problems }
}

async function call({ fields, signal }: CallOf<typeof callSchema>, servers: McpServers) {
  const { content, isError } = await servers.call(fields.name, fields.arguments, signal)
  return { content, is_error: isError }
}

const optionsSchema = z.strictObject({
  servers: z
    .record(
      z.string().regex(/^[a-zA-Z0-9-]{1,24}$/, 'a name of letters, digits and -'),
      mcpServerSchema,
    )
    .default({})
    .describe('The servers by name. Every user of this server may call their tools.'),
})

/** Tools of MCP servers for the page, `cllm run` and Responses; off unless servers are named. */
export const mcp = defineProtocol({
  name: 'mcp',
  doc: 'Tools of MCP servers, where `protocol_options.mcp.servers` names some: `/mcp/tools`, `/mcp/call`.',
  options: optionsSchema,
  create({ servers }, services) {
    if (Object.keys(servers).length === 0) return { name: 'mcp' }
    const all = new McpServers(servers)
    services.set(MCP_SERVERS, all)
    return { name: 'mcp', routes: bindRoutes(routes, all) }
  },
})
