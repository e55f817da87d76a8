import { once } from 'node:events'
import { lookup, type LookupAddress } from 'node:dns'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'
import { type Clock, CllmError } from '@cllm/core'
import ipaddr from 'ipaddr.js'
import { readWithin } from '../body/read-body.js'

/** What of other servers may be fetched for prompts. */
export interface MediaUrlOptions {
  /**
   * The servers: `HOST`, or `*` for all, on the ports 80 and 443 and at public addresses; `HOST:PORT` on that port, at
   * any address.
   */
  readonly hosts: readonly string[]
  /** Largest file, in bytes; default 10 MiB. */
  readonly limitBytes?: number
  /** Resolves names; default: as the system does. */
  readonly lookup?: LookupAll
}

/** `lookup` of `node:dns` for all addresses of a name. */
export type LookupAll = (
  host: string,
  options: { readonly all: true },
  done: (error: Error | null, found: LookupAddress[]) => void,
) => void

const mostRedirects = 3

/** Milliseconds for a file with all redirects. */
const mostMs = 10_000

/**
 * Files that are fetched at a time: each may hold a descriptor of this process until its time is over. Names that are
 * looked up count beyond that, as nothing ends a look-up: those of slow servers would pile up before all others.
 */
const mostAtOnce = 256

/**
 * Fetches the images and sounds that clients name by URL, so that nobody reaches through this server what it alone can
 * reach: a name is resolved once, its addresses are checked, and the connection goes to one of these; each redirect is
 * checked like the first URL. The rules answer those of vLLM's CVE-2025-6242.
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
   * A file in base64.
   *
   * @param field - where its URL is in the request
   * @param until - aborts when nobody wants it any more
   * @param count - takes its bytes as they come; what it throws ends the fetching
   * @throws `unsupported` for a server that is not allowed, `body_too_large`, `invalid_media` for what cannot be fetched,
   * `queue_full` where too many are being fetched
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
    // a name goes through #resolve, an address does not
    if (!isNamed && ipaddr.isValid(host)) checkAddress(host)
    const answer = (isSecure ? https : http).get(at, {
      // connections are not shared: one that was allowed to a private address stays with its request
      agent: false,
      auth: null,
      headers: { Accept: 'image/*, audio/*', 'User-Agent': 'cLLM' },
      lookup: this.#resolve(isNamed),
      signal,
    })
    // what goes wrong behind the head is thrown where the answer is read
    answer.on('error', () => {})
    const [message] = (await once(answer, 'response')) as [IncomingMessage]
    return message
  }

  /** Gives a connection the addresses of a name, all of which must be allowed. */
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

/** Has a public address, and tells each machine of Azure its secrets. */
const azureHost = '168.63.129.16'

/** @throws `unsupported` for an address that is not one of the public internet */
function checkAddress(address: string): void {
  // a mapped address of the old kind counts as what it is mapped from
  const ip = ipaddr.process(address)
  const range = ip.range()
  // the library calls unassigned addresses unicast, too; of IPv6 only 2000::/3 is assigned
  // (::7f00:1 was once a way to write 127.0.0.1)
  const isAssigned = ip.kind() === 'ipv4' || ip.toByteArray()[0]! >> 5 === 1
  if (range === 'unicast' && isAssigned && ip.toString() !== azureHost) return
  const message = `its server has no public address (${range === 'unicast' ? 'reserved' : range}): --media-urls takes such a one as HOST:PORT`
  throw new CllmError('unsupported', message)
}

/** What stands in the way, without what a private network would tell. */
const fetchProblem = (error: Error & { readonly code?: unknown }): string =>
  `the URL cannot be fetched: ${typeof error.code === 'string' ? error.code : error.message}`
