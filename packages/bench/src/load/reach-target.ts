import { CllmError, defined } from '@cllm/core'
import { type LoadOptions, type Target, urlOf } from './load-options.js'
import { sendRequest } from './send-request.js'

/**
 * Checks that a target answers, and finds a model to request if its API requires one.
 *
 * @returns the target, with its model
 * @throws `target_unavailable` with a hint on how to fix it, and the signal's reason
 */
export async function reachTarget(
  target: Target,
  load: Pick<LoadOptions, 'temperature' | 'ignoreEos' | 'timeoutMs'>,
  signal: AbortSignal,
): Promise<Target> {
  const model =
    target.model ??
    (target.api.needsModel ? await firstModel(target, load.timeoutMs, signal) : undefined)
  const named = defined({ model })
  const ready = { ...target, ...named }
  const ask = { prompt: 'Hello, how are you today?', maxTokens: 4, tenant: '', ...load, ...named }
  const begin = performance.now()
  const options = { now: () => performance.now() - begin, signal, timeoutMs: load.timeoutMs }
  const { outcome, failure } = await sendRequest(ready, ask, options)
  if (outcome === 'failed') throw unavailable(target, failure?.kind ?? '', failure?.message ?? '')
  return ready
}

function unavailable({ url, api }: Target, kind: string, message: string): CllmError {
  const path = `${url.origin}${urlOf({ url }, api.path).pathname}`
  if (kind === 'connection') {
    return new CllmError('target_unavailable', `cannot reach ${url.href}: ${message}`)
  }
  const isOther = kind === 'protocol' || kind === 'http_404' || kind === 'http_405'
  const hint = isOther ? `; is ${api.name} the right --api?` : ''
  const text = `POST ${path} failed with ${kind}: ${message}${hint}`
  return new CllmError('target_unavailable', text)
}

/** The first model that a server lists, by OpenAI's or Ollama's API. */
async function firstModel(target: Target, timeoutMs: number, signal: AbortSignal): Promise<string> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  const url = urlOf(target, target.api.name === 'ollama' ? '/api/tags' : '/v1/models')
  let response: Response
  try {
    response = await fetch(url, { headers: target.headers, signal: until })
  } catch (error) {
    signal.throwIfAborted()
    const { cause, message } = error as Error
    const reason = (cause as Error | undefined)?.message || message
    throw new CllmError('target_unavailable', `cannot reach ${target.url.href}: ${reason}`)
  }
  const list = (await response.json().catch(() => undefined)) as
    | { data?: { id?: string }[]; models?: { name?: string }[] }
    | undefined
  const model = list?.data?.[0]?.id ?? list?.models?.[0]?.name
  if (model !== undefined) return model
  const text = `GET ${url.href} (${response.status}) lists no model: name one with --model, or is ${target.api.name} not the right --api?`
  throw new CllmError('target_unavailable', text)
}
