/** What the compiler promises to users of `cllm`. `tsc -b` checks it; nothing runs it. */
import type { EngineClient, SchedulerPolicy, Backend } from '@cllm/core'
import type { Server } from '@cllm/host'
import { koaTransport } from '@cllm/http-koa'
import { createServer, serve } from 'cllm'

declare const backend: Backend
declare const policy: SchedulerPolicy
declare const client: EngineClient

const transports = [koaTransport({ protocols: [] })]

// Instances in this process, or engines that exist.
export const servers: Server[] = [
  createServer({ transports, backend, policy }),
  createServer({ transports, engines: { tiny: client } }),
]

void serve({ model: 'stories15m', port: 8080, settings: { engine: { gpu: 'off' } } })
// @ts-expect-error a port is a number
void serve({ port: '8080' })
// @ts-expect-error there is no such setting
void serve({ settings: { engine: { gpuu: 'off' } } })
// @ts-expect-error a model's name is for `serve`
void createServer({ transports, model: 'stories15m' })
// @ts-expect-error without an engine there is no server
void createServer({ transports })
