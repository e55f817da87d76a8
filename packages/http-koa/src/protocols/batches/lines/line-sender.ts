import { CllmError, type EngineDirectory, type Services } from '@cllm/core'
import { checkDepth } from '../../../body/read-body.js'
import { errorHeaders, publicError } from '../../../errors/error-body.js'
import { UnknownFields, type JsonObject } from '../../../fields/fields.js'
import type { Call, IncomingBody } from '../../../routes/route.js'
import { checkFields, openModel } from '../../../routes/driver.js'
import type { KoaProtocol } from '../../../routes/koa-context.js'
import { RouteTable } from '../../../routes/route-table.js'
import { requestScope } from '../../../security/authenticate.js'
import type { KeyAccess } from '../../../security/api-key.js'
import type { Owner } from '../batch-objects.js'

/** What a line of a batch asks. */
export interface BatchLine {
  readonly custom_id: string
  readonly method: 'POST'
  readonly url: string
  readonly body: JsonObject
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
 * Answers lines by the protocols' own routes, without a connection. They count towards the limits that the
 * owner's key has at that time.
 *
 * @param access - the keys; undefined on servers without
 */
export function lineSender(
  protocols: readonly KoaProtocol[],
  engines: EngineDirectory,
  services: Services,
  access: KeyAccess | undefined,
): SendLine {
  const table = new RouteTable(protocols)
  const unknown = new UnknownFields()
  const ask = async ({ url, body }: BatchLine, owner: Owner | undefined, signal: AbortSignal) => {
    checkBody(body)
    const { routes, errors } = table.match('POST', url)
    let headers: Readonly<Record<string, string>> = {}
    try {
      const key = requestScope.getStore()?.key
      if (key !== undefined) await access?.limit(key, (more) => (headers = { ...headers, ...more }))
      const [found] = routes
      if (found === undefined) throw new CllmError('not_found', `There is nothing at ${url}`)
      const { route, params } = found
      const fields = checkFields(route, body, unknown, services.logger)
      const keyName = owner?.name
      const call = lineCall(engines, services, { path: url, fields, params, keyName, signal })
      return { status: 200, body: await route.handle(call, route.own), retryAfter: undefined }
    } catch (error) {
      signal.throwIfAborted()
      const shown = publicError(error, services.logger)
      const seconds = Number({ ...headers, ...errorHeaders(shown) }['Retry-After'])
      return {
        status: errors.status?.(shown) ?? shown.status,
        body: errors.body(shown),
        retryAfter: Number.isFinite(seconds) ? seconds : undefined,
      }
    }
  }
  return async (line, owner, signal) => {
    const key = owner && (access === undefined ? owner : access.keys.withHash(owner.hash))
    if (owner !== undefined && key === undefined) return keyIsGone
    if (key === undefined) return await ask(line, owner, signal)
    const scope = { key: { ...key, role: 'user' } } as const
    return await requestScope.run(scope, async () => await ask(line, owner, signal))
  }
}

const keyIsGone: LineAnswer = { status: 401, body: null, retryAfter: undefined }

/** @throws `invalid_json` where a body has too many levels, which `JSON.stringify` may not write at all */
function checkBody(body: BatchLine['body']): void {
  let text: string
  try {
    text = JSON.stringify(body)
  } catch (cause) {
    throw new CllmError('invalid_json', 'body: expected JSON of fewer levels', { cause })
  }
  checkDepth(text)
}

/** A line as a handler sees it: a request without headers, whose answer nobody reads bit by bit. */
const lineCall = (
  engines: EngineDirectory,
  { clock, random, logger }: Services,
  asking: Pick<Call, 'path' | 'fields' | 'params' | 'keyName' | 'signal'>,
): Call => ({
  ...asking,
  engines,
  clock,
  random,
  logger,
  query: {},
  id: undefined,
  streams: undefined,
  takesGzip: false,
  open: (model) => openModel(engines, model, { until: asking.signal }),
  header: () => '',
  set() {},
  accepts: (type = '') => type,
  get body(): IncomingBody {
    throw new Error('a line has its fields only')
  },
})
