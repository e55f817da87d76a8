// @ts-check
import { readFileSync } from 'node:fs'
import { createServer } from '@cllm/host'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'
import { ngramBackend } from './ngram-backend.js'

const [file = 'server.js', port = '8080'] = process.argv.slice(2)
const server = createServer({
  backend: ngramBackend({ text: readFileSync(file, 'utf8') }),
  policy: createPolicy(),
  transports: [koaTransport({ port: Number(port), protocols: [nativeProtocol()] })],
})

const [address] = await server.listen()
console.log(`listening on ${address?.url}`)
process.once('SIGTERM', () => void server.close().then(() => process.exit(0)))
