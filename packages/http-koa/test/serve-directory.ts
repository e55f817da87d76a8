import { createServer } from '@cllm/host'
import type { EngineDirectory, Protocol } from '@cllm/core'
import { koaTransport, type KoaProtocol, type KoaRouter } from '@cllm/http-koa'

/** Serves a protocol for the conformance suite. */
export const serveDirectory =
  (create: () => KoaProtocol) =>
  async (directory: EngineDirectory, beside: Protocol<KoaRouter>) => {
    const [model = ''] = directory.list()
    const server = createServer({
      engines: { [model]: directory.open() },
      transports: [koaTransport({ port: 0, protocols: [create(), beside] })],
    })
    const [address] = await server.listen()
    return { url: address?.url ?? '', close: () => server.close() }
  }
