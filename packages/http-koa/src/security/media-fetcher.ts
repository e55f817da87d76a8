import { once } from 'node:events'
import { lookup, type LookupAddress } from 'node:dns'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'
import { type Clock, CllmError } from '@cllm/core'
import ipaddr from 'ipaddr.js'
import { readWithin } from '../body/read-body.js'

/** The files that may be fetched from other servers for prompts. */
export interface MediaUrlOptions {
  /**
   * The allowed servers: `HOST`, or `*` for all, on the ports 80 and 443 and at public addresses; `HOST:PORT` on that
   * port, at any address.
   */
  readonly hosts: readonly string[]
  /** The largest file in bytes; default 10 MiB. */
  readonly limitBytes?: number
  /** Resolves names; default: the system's resolver. */
  readonly lookup?: LookupAll
}

/** `lookup` of `node:dns` for all addresses of a name. */
export type LookupAll = (
  host: string,
  options: { readonly all: true },
  done: (error: Error | null, found: LookupAddress[]) => void,
) => void

const mostRedirects = 3

/** The most milliseconds for a file, including all redirects. */
const mostMs = 10_000

/**
 * The most files that are fetched at once, as each may hold a file descriptor until its time is over. Name look-ups
 * are limited by the same number: they cannot be cancelled, so look-ups at slow servers could pile up.
 */
const mostAtOnce = 256

/**
 * Fetches the images and sounds that clients name by URL, without giving them access to servers that only this machine
 * can reach: a name is resolved once, its addresses are checked, and the connection goes to one of these; each redirect
 * is checked like the first URL. The rules prevent attacks like vLLM's CVE-2025-6242.
 */
export class MediaFetcher {
  readonly #hosts: ReadonlySet<string>
  #fetching = 0
  #lookups = 0

  constructor(
    private readonly options: MediaUrlOptions,
    private readonly clock: Clock,
  ) {
    this.#hosts = new Set(options.hosts.map((host) => host.toLowerCase()))
  }

  /**
   * Fetches a file; resolves with it in base64.
   *
   * @param field - the request's field that contains the URL
   * @param until - aborts when nobody wants the file any more
   * @param count - called with the number of bytes of each part; an error that it throws ends the fetching
   * @throws `unsupported` for a server that is not allowed, `body_too_large`, `invalid_media` for a file that cannot be
   * fetched, `queue_full` if too many are being fetched
   */
  async fetch(
    url: string,
    field: string,
    until: AbortSignal | undefined,
    count: (bytes: number) => void,
  ): Promise<string> {
    if (Math.max(this.#fetching, this.#lookups) >= mostAtOnce) {
      throw new CllmError('queue_full', `${mostAtOnce} files are being fetched, which is the limit`)
    }
    this.#fetching++
    const over = new AbortController()
    const cancel = this.clock.at(this.clock.now() + mostMs, () =>
      over.abort(new Error(`it took more than ${mostMs} ms`)),
    )
    const signals = until === undefined ? [over.signal] : [over.signal, until]
    try {
      return await this.#follow(url, AbortSignal.any(signals), count)
    } catch (cause) {
      const reason = over.signal.aborted ? (over.signal.reason as Error) : cause
      const code = reason instanceof CllmError ? reason.code : 'invalid_media'
      const what = reason instanceof CllmError ? reason.message : fetchProblem(reason as Error)
      throw new CllmError(code, `${field}: ${what}`, { cause, details: { field } })
    } finally {
      this.#fetching--
      cancel()
    }
  }

  async #follow(url: string, signal: AbortSignal, count: (bytes: number) => void): Promise<string> {
    const { limitBytes = 10 * 1024 * 1024 } = this.options
    let at = url
    for (let redirects = 0; redirects <= mostRedirects; redirects++) {
      const answer = await this.#ask(at, signal)
      try {
        const { statusCode: status = 0, headers } = answer
        if (status >= 300 && status < 400 && headers.location !== undefined) {
          at = new URL(headers.location, at).href
          continue
        }
        if (status !== 200) throw new Error(`its server answers ${status}`)
        const length = headers['content-length'] ?? ''
        const file = await readWithin(answer, limitBytes, length, count, 'file')
        return file.toString('base64')
      } finally {
        answer.destroy()
      }
    }
    throw new Error(`it leads from one URL to another more than ${mostRedirects} times`)
  }

  async #ask(url: string, signal: AbortSignal): Promise<IncomingMessage> {
    const at = new URL(url)
    const host = at.hostname.replace(/^\[|\]$/g, '')
    const isSecure = at.protocol === 'https:'
    const port = at.port || (isSecure ? '443' : '80')
    const isNamed = this.#hosts.has(`${at.hostname}:${port}`)
    const isListed = this.#hosts.has('*') || this.#hosts.has(at.hostname)
    const isUsual = port === '80' || port === '443'
    if (!(isSecure || at.protocol === 'http:') || !(isNamed || (isListed && isUsual))) {
      throw new CllmError(
        'unsupported',
        `${at.protocol}//${at.host.slice(0, 100)} is not among the servers of --media-urls: ` +
          'send the file in base64 (data:image/png;base64,…)',
      )
    }
    // #resolve checks the addresses of names, but is not called for an address
    if (!isNamed && ipaddr.isValid(host)) checkAddress(host)
    const answer = (isSecure ? https : http).get(at, {
      // connections are not reused: one to an allowed private address must not serve other requests
      agent: false,
      auth: null,
      headers: { Accept: 'image/*, audio/*', 'User-Agent': 'cLLM' },
      lookup: this.#resolve(isNamed),
      signal,
    })
    // errors behind the head are thrown where the answer is read
    answer.on('error', () => {})
    const [message] = (await once(answer, 'response')) as [IncomingMessage]
    return message
  }

  /** Looks up the addresses of a name for a connection; all of them must be allowed. */
  #resolve(isNamed: boolean): LookupFunction {
    return (host, { all }, done) => {
      const find = this.options.lookup ?? lookup
      this.#lookups++
      find(host, { all: true }, (error, found) => {
        this.#lookups--
        try {
          if (error !== null) throw error
          const [first] = found
          if (first === undefined) throw new Error('its name has no address')
          if (!isNamed) for (const { address } of found) checkAddress(address)
          if (all === true) done(null, found)
          else done(null, first.address, first.family)
        } catch (problem) {
          done(problem as Error, '', 0)
        }
      })
    }
  }
}

/** Azure's metadata service, which reveals secrets to each of its machines, has this public address. */
const azureHost = '168.63.129.16'

/** @throws `unsupported` for an address that is not on the public internet */
function checkAddress(address: string): void {
  // an IPv6 address that maps an IPv4 one counts as the latter
  const ip = ipaddr.process(address)
  const range = ip.range()
  // the library calls unassigned addresses unicast, too; in IPv6 only 2000::/3 is assigned
  // (::7f00:1 was once a way to write 127.0.0.1)
  const isAssigned = ip.kind() === 'ipv4' || ip.toByteArray()[0]! >> 5 === 1
  if (range === 'unicast' && isAssigned && ip.toString() !== azureHost) return
  const message = `its server has no public address (${range === 'unicast' ? 'reserved' : range}): --media-urls takes such a one as HOST:PORT`
  throw new CllmError('unsupported', message)
}

/** Why a URL cannot be fetched, without details that would reveal a private network. */
const fetchProblem = (error: Error & { readonly code?: unknown }): string =>
  `the URL cannot be fetched: ${typeof error.code === 'string' ? error.code : error.message}`
