import { connect as connectPlain } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { urlOf } from '../../packages/bench/dist/load/load-options.js'

/** A connection without an HTTP client, which sends bytes unchanged. */
export class RawConnection {
  #socket
  opened
  #received = ''
  #isClosed = false
  #onNews = () => {}

  constructor({ url }) {
    const { hostname, protocol } = url
    const isTls = protocol === 'https:'
    const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port)
    const host = hostname.replace(/^\[|\]$/g, '')
    const options = { host, port }
    this.#socket = isTls ? connectTls(options) : connectPlain(options)
    this.opened = new Promise((resolve) => {
      this.#socket.once(isTls ? 'secureConnect' : 'connect', () => resolve(true))
      this.#socket.once('close', () => resolve(false))
    })
    this.#socket.on('data', (data) => {
      this.#received += data.toString('latin1')
      this.#onNews()
    })
    this.#socket.on('error', () => {})
    this.#socket.once('close', () => {
      this.#isClosed = true
      this.#onNews()
    })
  }

  /** Sends bytes; resolves when the system has accepted them or the connection is closed. */
  async send(data) {
    if (this.#socket.destroyed) return
    await new Promise((resolve) => {
      this.#socket.write(data, () => resolve())
      this.#socket.once('close', () => resolve())
    })
  }

  /** Waits until this many answers have begun, the server has closed, or the time is over. */
  async answers(count, timeoutMs) {
    const statuses = () =>
      [...this.#received.matchAll(/HTTP\/1\.[01] (\d{3})/g)].map(([, code]) => Number(code))
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      this.#onNews = () => {
        if (!this.#isClosed && statuses().filter((status) => status >= 200).length < count) return
        clearTimeout(timer)
        resolve()
      }
      this.#onNews()
    })
    const isClosed = this.#isClosed
    return { statuses: statuses().filter((status) => status >= 200), isClosed }
  }

  close() {
    this.#socket.destroy()
  }
}

/** The head of a POST to a target's API. */
export function postHead(target, headers) {
  const all = { host: target.url.host, ...target.headers, ...headers }
  const lines = Object.entries({ 'content-type': 'application/json', ...all })
  const { pathname } = urlOf(target, target.api.path)
  return `POST ${pathname} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
}
