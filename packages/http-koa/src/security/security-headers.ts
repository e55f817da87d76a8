import type { Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'

/** On every answer: browsers are not to guess what it is. */
const always = { 'X-Content-Type-Options': 'nosniff' }

/** Headers of pages: they cannot be framed, and load nothing from elsewhere. */
const onPages = {
  'Content-Security-Policy':
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
}

/** Sets the headers that keep browsers safe, where a page has not set its own. */
export const securityHeaders: Middleware<KoaState> = async (ctx, next) => {
  ctx.set(always)
  await next()
  if (ctx.headerSent || ctx.response.type !== 'text/html') return
  for (const [name, value] of Object.entries(onPages)) {
    if (!ctx.res.hasHeader(name)) ctx.set(name, value)
  }
}
