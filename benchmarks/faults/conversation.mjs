import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { eventDecoder } from '../../packages/bench/dist/load/answer.js'
import { urlOf } from '../../packages/bench/dist/load/load-options.js'

/** A request on its own connection, with a client that can pause, resume and disconnect. */
export class Conversation {
  heard = { text: '', chunks: 0, ended: false }
  /** Resolves when the whole request is sent, or cannot be sent. */
  sent
  /** Resolves at the answer's head, or when there will be no answer. */
  head
  /** Resolves when the request has ended, well or not. */
  done
  #request
  #waiting = []
  #response
  #isOver = false

  constructor(target, ask, timeoutMs) {
    const { api, url, headers, extraBody, model } = target
    const named = model === undefined ? ask : { ...ask, model }
    const body = JSON.stringify({ ...api.body(named), ...extraBody })
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const contentType = { 'content-type': 'application/json' }
    this.#request = send(urlOf(target, api.path), {
      method: 'POST',
      agent: false,
      headers: { ...headers, ...contentType, 'content-length': Buffer.byteLength(body) },
    })
    this.#request.once('response', (response) => this.#read(response, target))
    this.sent = new Promise((resolve) => {
      this.#request.once('finish', () => resolve()).once('close', () => resolve())
    })
    this.head = new Promise((resolve) => {
      this.#request.once('response', () => resolve()).once('close', () => resolve())
    })
    this.done = new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.heard.broken = `no end after ${timeoutMs / 1000} s`
        this.leave()
      }, timeoutMs)
      const over = () => {
        clearTimeout(timer)
        this.#isOver = true
        for (const { resolve: wake } of this.#waiting.splice(0)) wake()
        resolve(this.heard)
      }
      // The request can be closed while a slow reader still has to read the answer.
      this.#request.once('response', (response) => response.once('close', over))
      this.#request.once('close', () => void (this.#response === undefined && over()))
    })
    this.#request.on('error', ({ message }) => (this.heard.broken ??= message))
    this.#request.end(body)
  }

  /** Resolves after this many events with text, or at the end of the answer. */
  async chunks(count) {
    if (this.#isOver || this.heard.chunks >= count) return
    await new Promise((resolve) => this.#waiting.push({ chunks: count, resolve }))
  }

  /** Closes the connection. */
  leave() {
    this.#request.destroy()
  }

  /** Stops reading; the connection stays open. */
  pause() {
    this.#response?.pause()
  }

  resume() {
    this.#response?.resume()
  }

  #read(response, { api }) {
    const { heard } = this
    this.#response = response
    heard.status = response.statusCode ?? 0
    response.setEncoding('utf8')
    response.on('error', ({ message }) => (heard.broken ??= message))
    if (heard.status !== 200) {
      response.on('data', (text) => (heard.error = `${heard.error ?? ''}${text}`))
      return
    }
    const decoder = eventDecoder(api.framing, (data) => {
      if (data === '[DONE]') heard.ended = true
      else this.#take(readEvent(api, data))
    })
    response.on('data', (text) => decoder.feed(text))
  }

  #take(event) {
    const { heard } = this
    if (event.error !== undefined) heard.error = event.error
    if (event.done === true) heard.ended = true
    if (event.text === undefined || event.text === '') return
    heard.text += event.text
    heard.chunks++
    for (const each of this.#waiting.filter(({ chunks }) => chunks <= heard.chunks)) {
      this.#waiting.splice(this.#waiting.indexOf(each), 1)
      each.resolve()
    }
  }
}

function readEvent(api, data) {
  const error = `not an event of the API ${api.name}: ${data.slice(0, 80)}`
  try {
    return api.read(JSON.parse(data)) ?? { error }
  } catch {
    return { error }
  }
}
