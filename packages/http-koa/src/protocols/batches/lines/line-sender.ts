import { CllmError, type EngineDirectory } from '@cllm/core'
import { Router } from '@koa/router'
import Koa from 'koa'
import { handleErrors } from '../../../errors/error-handler.js'
import type { KoaProtocol, KoaState, TransportServices } from '../../../routes/koa-context.js'
import { requestScope } from '../../../security/request-scope.js'
import type { KeyAccess } from '../../../security/secure.js'
import type { Owner } from '../batch-objects.js'

/** What a line of a batch asks. */
export interface BatchLine {
  readonly custom_id: string
  readonly method: 'POST'
  readonly url: string
  readonly body: Readonly<Record<string, unknown>>
}

/** The answer to a line, as a client would have got it. */
export interface LineAnswer {
  /** 401 where the key that asked for the batch is valid no longer. */
  readonly status: number
  readonly body: unknown
  /** Seconds after which it may be asked again, where the server was busy. */
  readonly retryAfter: number | undefined
}

/** Asks what a line asks, on behalf of its owner. Rejects when the signal fires. */
export type SendLine = (
  line: BatchLine,
  owner: Owner | undefined,
  signal: AbortSignal,
) => Promise<LineAnswer>

/**
 * Answers lines by a protocol's own routes, without a connection. They count towards the limits that the
 * owner's key has at that time.
 *
 * @param access - the keys; undefined on servers without
 */
export function lineSender(
  protocol: KoaProtocol,
  directory: EngineDirectory,
  services: TransportServices,
  access: KeyAccess | undefined,
): SendLine {
  const router = new Router<KoaState>()
  protocol.mount(router, directory)
  const app = new Koa<KoaState>()
  app.use(async (ctx, next) => {
    ctx.state.transport = services
    await next()
  })
  app.use(handleErrors([protocol]))
  if (access !== undefined) app.use(access.limit)
  app.use(router.routes())
  const answer = app.callback()
  return async ({ url, body }, owner, signal) => {
    const key = owner && (access === undefined ? owner : access.keys.withHash(owner.hash))
    if (owner !== undefined && key === undefined) return keyIsGone
    const text = asJson(body)
    const { default: inject } = await import('light-my-request')
    const ask = async () =>
      await inject((req, res) => void answer(req, res), {
        method: 'POST',
        url,
        headers: { 'content-type': 'application/json' },
        payload: text,
        signal,
      })
    const { statusCode, payload, headers } = await (key === undefined
      ? ask()
      : requestScope.run({ key: { ...key, role: 'user' } }, ask))
    const seconds = Number(headers['retry-after'])
    return {
      status: statusCode,
      body: parsed(payload),
      retryAfter: Number.isFinite(seconds) ? seconds : undefined,
    }
  }
}

/** @throws `invalid_json` where it is too deep to be written */
function asJson(body: BatchLine['body']): string {
  try {
    return JSON.stringify(body)
  } catch (cause) {
    throw new CllmError('invalid_json', 'body: expected JSON of fewer levels', { cause })
  }
}

const keyIsGone: LineAnswer = { status: 401, body: null, retryAfter: undefined }

function parsed(payload: string): unknown {
  try {
    return JSON.parse(payload)
  } catch {
    return payload
  }
}
