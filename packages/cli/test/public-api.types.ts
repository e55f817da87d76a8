/** What the compiler promises to users of `cllm`'s `createServer`. `tsc -b` checks it; nothing runs it. */
import type { EngineClient, SchedulerPolicy, Backend } from '@cllm/core'
import type { Server } from '@cllm/host'
import { koaTransport } from '@cllm/http-koa'
import { createServer, serve } from 'cllm'

declare const backend: Backend
declare const policy: SchedulerPolicy
declare const client: EngineClient

const transports = [koaTransport({ protocols: [] })]

// A model's name, instances in this process, or engines that exist.
export const servers: Promise<Server>[] = [
  createServer({ transports, model: 'stories15m', policy: 'chunked+edf', backend: { slots: 4 } }),
  createServer({ transports, backend, policy }),
  createServer({ transports, engines: { tiny: client } }),
]

void serve({ model: 'stories15m', port: 8080, settings: { engine: { gpu: 'off' } } })
// @ts-expect-error a port is a number
void serve({ port: '8080' })
// @ts-expect-error there is no such setting
void serve({ settings: { engine: { gpuu: 'off' } } })
// @ts-expect-error the model's path is not a setting of the backend here
void createServer({ transports, model: 'stories15m', backend: { modelPath: 'a.gguf' } })
// @ts-expect-error with a model's name, the policy is a name too
void createServer({ transports, model: 'stories15m', policy })
// @ts-expect-error without an engine there is no server
void createServer({ transports })
