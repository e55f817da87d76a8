import type { IncomingMessage, Server } from 'node:http'
import { setTimeout as after } from 'node:timers'

/** Bytes of an upload that must come in the time that a whole body has. */
const uploadBytes = 1024 * 1024

const uploads = new WeakSet<IncomingMessage>()

/** Says that a body is a file, which may take long, as long as it comes. */
export function allowUpload(request: IncomingMessage): void {
  uploads.add(request)
}

/**
 * Refuses bodies that take longer than `limitMs`, as Node's `requestTimeout` does, which knows no
 * exceptions: an upload has this time for each MiB.
 */
export function limitBodyTime(server: Server, limitMs: number): void {
  server.on('request', (request: IncomingMessage) => {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers
    if (length === '0' && encoding === undefined) return
    const { socket } = request
    let before = socket.bytesRead
    let timer = after(look, limitMs).unref()
    function look(): void {
      if (request.complete || socket.destroyed) return
      const { bytesRead } = socket
      if (uploads.has(request) && bytesRead - before >= uploadBytes) {
        before = bytesRead
        timer = after(look, limitMs).unref()
        return
      }
      const error = new Error('The body took too long')
      server.emit('clientError', Object.assign(error, { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket)
    }
    request.once('close', () => {
      // what was answered early may still have a body to come
      if (request.complete || socket.destroyed) clearTimeout(timer)
    })
  })
}
