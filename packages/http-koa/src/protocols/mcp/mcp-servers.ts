import { CllmError, defined, ownEntry } from '@cllm/core'
import type { Client, jsonSchemaValidator } from '@modelcontextprotocol/client'
import { z } from 'zod'
import { expectedField } from '../../request/refusals.js'

const texts = z.record(z.string(), z.string())

/** How a server of tools is reached: a program that is started, or an address. */
export const mcpServerSchema = z.union(
  [
    z.strictObject({
      command: z
        .string()
        .min(1)
        .describe('The program, which speaks MCP over its standard input and output.'),
      args: z.array(z.string()).optional(),
      env: texts
        .optional()
        .describe(
          "Its environment, besides a few such as PATH: it gets none of this server's secrets.",
        ),
      cwd: z.string().optional(),
    }),
    z.strictObject({
      url: z
        .url({ protocol: /^https?$/ })
        .describe('The address of its endpoint (Streamable HTTP).'),
      headers: texts.optional(),
    }),
  ],
  { error: () => 'expected { command, args?, env?, cwd? } or { url, headers? }' },
)

type McpServerOptions = z.output<typeof mcpServerSchema>

/** A tool of a server. */
export interface McpTool {
  /** What models call it: `SERVER__TOOL`. */
  readonly name: string
  readonly server: string
  readonly description: string
  /** The JSON schema of its arguments. */
  readonly parameters: Readonly<Record<string, unknown>>
}

const separator = '__'
/** Milliseconds that a tool may take. */
const callMs = 120_000
/** What a server over HTTP answers to a session of before it started again: 404, or 400 from the reference's SDKs. */
const lostSession: ReadonlySet<number> = new Set([400, 404])

/** A result that is longer is cut: models would have to read it. */
const mostResult = 100_000
/** Characters of a server's error that are told. */
const mostProblem = 1000
/** An answer with more bytes is refused, as reading it would hold up all requests; also the SDK's limit for programs. */
const mostAnswer = 10 * 2 ** 20

/**
 * The servers of tools that the configuration names. Each is started, or connected to, when it is first asked for, and
 * again when it has ended. Model Context Protocol (modelcontextprotocol.io); its client is loaded only then.
 */
export class McpServers {
  readonly #clients = new Map<string, Promise<Client>>()
  /** The lists of tools that are being asked for: who asks meanwhile gets the same. */
  readonly #listing = new Map<string, Promise<McpTool[]>>()
  readonly #closing = new AbortController()

  constructor(private readonly servers: Readonly<Record<string, McpServerOptions>>) {}

  /** The names of the servers. */
  get names(): readonly string[] {
    return Object.keys(this.servers)
  }

  /**
   * The tools of a server.
   *
   * @throws CllmError `not_found` for a server that the configuration does not name, `backend_failed` where it is not
   * reached
   */
  tools(server: string): Promise<McpTool[]> {
    const listing =
      this.#listing.get(server) ?? this.#list(server).finally(() => this.#listing.delete(server))
    this.#listing.set(server, listing)
    return listing
  }

  async #list(server: string): Promise<McpTool[]> {
    const { tools } = await this.#asking(server, async (client) => await client.listTools())
    return tools.map(({ name, description = '', inputSchema }) => {
      return { name: `${server}${separator}${name}`, server, description, parameters: inputSchema }
    })
  }

  /**
   * Calls a tool by the name that models have for it.
   *
   * @throws CllmError `not_found`, `invalid_request` for arguments that the tool refuses, `backend_failed`
   */
  async call(name: string, given: Readonly<Record<string, unknown>>, signal: AbortSignal) {
    const [server = '', ...rest] = name.split(separator)
    const call = { name: rest.join(separator), arguments: { ...given } }
    const { content, structuredContent, isError } = await this.#asking(server, async (client) => {
      return await client.callTool(call, { signal, timeout: callMs })
    })
    const said = content.map((part) => (part.type === 'text' ? part.text : `(${part.type})`))
    const text = said.length > 0 ? said.join('\n') : JSON.stringify(structuredContent ?? null)
    return { content: text.slice(0, mostResult), isError: isError === true }
  }

  /** Ends the programs and connections, and begins none again. */
  async close(): Promise<void> {
    // One that is being connected to may never answer.
    this.#closing.abort()
    const clients = [...this.#clients.values()]
    this.#clients.clear()
    await Promise.allSettled(clients.map(async (client) => await (await client).close()))
  }

  async #asking<T>(server: string, ask: (client: Client) => Promise<T>): Promise<T> {
    const options = ownEntry(this.servers, server)
    if (options === undefined) {
      const known = this.names.join(', ')
      const message = `There is no MCP server "${server.slice(0, 64)}": there is ${known}`
      throw new CllmError('not_found', message)
    }
    const connected = this.#connected(server, options)
    try {
      return await ask(await connected)
    } catch (cause) {
      if (CllmError.isInstance(cause)) throw cause
      // The server's own errors have JSON-RPC's code, those of HTTP a status.
      const { code, message, status } = cause as Error & { code?: unknown; status?: number }
      // Wrong parameters: the server is well.
      if (code === -32_602)
        throw new CllmError('invalid_request', `${server}: ${message.slice(0, mostProblem)}`, {
          cause,
        })
      if (status !== undefined && lostSession.has(status)) {
        this.#forget(server, connected)
        void connected.then(async (client) => await client.close()).catch(() => {})
      }
      const what = `The MCP server ${server} failed: ${message.slice(0, mostProblem)}`
      throw new CllmError('backend_failed', what, { cause })
    }
  }

  #connected(name: string, options: McpServerOptions): Promise<Client> {
    if (this.#closing.signal.aborted)
      throw new CllmError('shutting_down', 'The MCP servers are being closed')
    const known = this.#clients.get(name)
    if (known !== undefined) return known
    const forget = (): void => this.#forget(name, connected)
    const connected = this.#connect(options, forget)
    connected.catch(forget)
    this.#clients.set(name, connected)
    return connected
  }

  #forget(name: string, client: Promise<Client>): void {
    if (this.#clients.get(name) === client) this.#clients.delete(name)
  }

  async #connect(options: McpServerOptions, onClose: () => void): Promise<Client> {
    const sdk = await import('@modelcontextprotocol/client')
    const client = new sdk.Client(
      { name: 'cllm', version: '1' },
      { jsonSchemaValidator: unchecked },
    )
    const { signal } = this.#closing
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no EventTarget
    client.onclose = onClose
    // the SDK's own signal ends the first request alone, not the notification behind it
    const end = (): void => void client.close().catch(() => {})
    signal.addEventListener('abort', end)
    try {
      if ('url' in options) {
        const { url, headers } = options
        const more = {
          fetch: fetchLimited(end),
          ...defined({ requestInit: headers && { headers } }),
        }
        await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url), more), { signal })
      } else {
        const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
        const program = new StdioClientTransport({ ...defined(options), stderr: 'ignore' })
        await client.connect(program, { signal })
      }
    } finally {
      signal.removeEventListener('abort', end)
    }
    return client
  }
}

/** Results are only passed on, and a pattern of a tool's `outputSchema` could hold up the process for ever. */
const unchecked: jsonSchemaValidator = {
  getValidator: () => (data) => ({ valid: true, data: data as never, errorMessage: undefined }),
}

/**
 * Makes a `fetch` whose answers of more than {@link mostAnswer} fail, as does such an event of a stream.
 *
 * @param end - ends the connection: the SDK would ask for the event again and again
 */
function fetchLimited(end: () => void): typeof fetch {
  return async (...given) => {
    const response = await fetch(...given)
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    let bytes = 0
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(part, out) {
        const at = isStream ? lastEventEnd(part) : -1
        bytes = at < 0 ? bytes + part.length : part.length - at
        if (bytes > mostAnswer) {
          if (isStream) end()
          throw new Error(`an answer of more than ${mostAnswer} bytes`)
        }
        out.enqueue(part)
      },
    })
    return new Response(response.body?.pipeThrough(limit) ?? null, response)
  }
}

/** Where the last event of a part of a stream ends; below 0: none does. */
function lastEventEnd({ buffer, byteOffset, length }: Uint8Array): number {
  const part = Buffer.from(buffer, byteOffset, length)
  return Math.max(part.lastIndexOf('\n\n'), part.lastIndexOf('\r\n\r\n'))
}

/**
 * The tools of a Responses request with those of type `mcp` as the functions that their server has. A person agrees to
 * each call at the client, which then sends it to `POST /mcp/call`.
 *
 * @throws CllmError `invalid_request` for a server that the configuration does not name: a request cannot bring one
 */
export async function withMcpTools<Tool extends { readonly type: string }>(
  tools: readonly Tool[],
  servers: McpServers,
): Promise<Tool[]> {
  const all = tools.map(async (tool, index) => {
    if (tool.type !== 'mcp') return [tool]
    const read = mcpToolSchema.safeParse(tool)
    if (!read.success || !servers.names.includes(read.data.server_label)) {
      const expected = `server_label to be one of ${servers.names.join(', ')}, and no server_url`
      throw expectedField(`tools.${index}`, expected)
    }
    const { server_label: label, allowed_tools: allowed } = read.data
    const offered = (await servers.tools(label)).filter(
      ({ name }) => allowed?.includes(name.slice(label.length + separator.length)) ?? true,
    )
    return offered.map(({ name, description, parameters }) => {
      return { type: 'function', name, description, parameters } as unknown as Tool
    })
  })
  return (await Promise.all(all)).flat()
}

const mcpToolSchema = z.object({
  server_label: z.string(),
  server_url: z.undefined().optional(),
  allowed_tools: z.array(z.string()).nullish(),
})
