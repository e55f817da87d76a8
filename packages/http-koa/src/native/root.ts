import type { KoaContext } from '../koa-context.js'
import type { NativeContext } from './native-context.js'

/** `GET /`: what this is and what it serves. */
export function root(ctx: KoaContext, native: NativeContext): void {
  const endpoints = native.routes.map(({ method, path, summary }) => ({
    method: method.toUpperCase(),
    path,
    description: summary,
  }))
  const data = { name: 'cLLM Server', version: native.version, endpoints }
  ctx.body = { success: true, data, ollama: 'Ollama is running' }
}
