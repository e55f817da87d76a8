// @ts-check
import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import { createServer } from '@cllm/host'
import { silentLogger, systemClock } from '@cllm/core'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'

const [modelPath = 'model.gguf', port = '8080'] = process.argv.slice(2)
const context = { clock: systemClock, logger: silentLogger }
const server = createServer({
  backend: await createLlamaCppBackend({ modelPath, slots: 4, gpu: 'off' }, context),
  policy: createPolicy('chunked+fcfs', { tokenBudget: 128 }),
  transports: [koaTransport({ port: Number(port), protocols: [nativeProtocol()] })],
})

const [address] = await server.listen()
console.log(`listening on ${address?.url}`)
process.once('SIGTERM', () => void server.close(10_000).then(() => process.exit(0)))
