import assert from 'node:assert/strict'
import { CllmError } from '@cllm/core'
import type { ProtocolClient, ProtocolRequest, ServeProtocol } from './served-protocol.js'
import { serveProtocol } from './served-protocol.js'
import { check, type TestContext } from '../test-context.js'

/** Options of {@link testProtocol}. */
export interface TestProtocolOptions {
  /**
   * The request that generates `maxTokens` tokens after `prompt`, streamed or not. Undefined where
   * the protocol has no such request.
   */
  readonly request: (
    prompt: string,
    maxTokens: number,
    stream: boolean,
  ) => ProtocolRequest | undefined
  /** How the server reaches the engine. A protocol should pass with both. Default `local`. */
  readonly client?: ProtocolClient
}

/** Failures of the engine that every protocol must pass on. */
const codes = ['prompt_too_long', 'queue_full', 'backend_failed', 'shutting_down'] as const

/** More tokens than a client waits for. */
const endless = 4000

/**
 * The conformance suite of protocols over HTTP: a request reaches the engine and its text comes back,
 * failures have the status of their code and a JSON body, a client that leaves cancels its request,
 * and other protocols and unknown paths are let alone.
 */
export async function testProtocol(
  t: TestContext,
  make: ServeProtocol,
  options: TestProtocolOptions,
): Promise<void> {
  const rig = await serveProtocol(make, options.client ?? 'local')
  const { client, watched } = rig

  const askForError = async (request: ProtocolRequest, status: number) => {
    const answer = await rig.ask(request)
    assert.equal(answer.status, status, answer.body)
    assert.match(answer.type, /json/, `an error is sent as JSON, instead got ${answer.type}`)
    assert.doesNotThrow(() => JSON.parse(answer.body), `expected JSON, instead got ${answer.body}`)
    return answer.body
  }

  const checkRequests = async (t: TestContext, stream: boolean) => {
    const make = (maxTokens: number) => options.request('Once upon a time', maxTokens, stream)
    const request = make(8)
    const long = make(endless)
    if (request === undefined || long === undefined) {
      t.pass('the protocol has no such request')
      return
    }

    await check(t, 'is answered with the text', async () => {
      const answer = await rig.ask(request)
      assert.equal(answer.status, 200, answer.body)
      const text = watched.text()
      assert.notEqual(text, '', 'the engine was not asked')
      // A stream may carry its text in any number of pieces.
      const isThere = hasPieces(answer.body, stream ? watched.pieces() : [text])
      assert(isThere, `"${text}" is not in ${answer.body}`)
    })

    await check(t, 'is cancelled when its client leaves', async () => {
      const before = await client.statistics()
      await rig.leave(long)
      const { requests, running, slots } = await client.statistics()
      assert.equal(requests.cancelled, before.requests.cancelled + 1, 'cancelled requests')
      assert.equal(running, 0, 'running requests one step later')
      assert(
        slots.every(({ state }) => state === 'idle'),
        'its slot is free',
      )
    })

    await check(t, 'fails with the status of its code', async () => {
      try {
        for (const code of codes) {
          const error = new CllmError(code, `an example of ${code}`)
          watched.failWith(error)
          const body = await askForError(request, error.status)
          if (error.status === 400) assert(body.includes(error.message), body)
        }
        watched.failWith(new TypeError('a defect'))
        await askForError(request, 500)
      } finally {
        watched.failWith(undefined)
      }
    })

    if (stream) {
      await check(t, 'tells of a failure in the middle, or is cut off', async () => {
        watched.failWith(new CllmError('backend_failed', 'an error in the middle'), 3)
        const answer = await rig.ask(request).catch(() => undefined)
        watched.failWith(undefined)
        assert.match(answer?.body ?? 'error', /error|failed/i, 'it ends like a whole answer')
      })
    }

    const isJson = request.body !== undefined && request.headers === undefined
    if (!isJson) return
    await check(t, 'is refused when its body is not JSON', async () => {
      await askForError({ ...request, body: '{"prompt' }, 400)
    })
  }

  await t.test('protocol', async (t) => {
    try {
      await check(t, 'is mounted beside another protocol', () => {
        assert.equal(rig.timesMounted(), 1, 'times that the other protocol is mounted')
      })
      await t.test('a request', async (t) => await checkRequests(t, false))
      await t.test('a streamed request', async (t) => await checkRequests(t, true))
      await check(t, 'leaves unknown paths alone: 404 with JSON', async () => {
        await askForError({ path: '/no/such/path', method: 'GET' }, 404)
      })
    } finally {
      await check(t, 'closes', async () => await rig.close())
    }
  })
}

/** Whether a body has these pieces of text in their order, each as it is or as JSON writes it. */
function hasPieces(body: string, pieces: readonly string[]): boolean {
  let from = 0
  for (const piece of pieces) {
    const forms = [piece, JSON.stringify(piece).slice(1, -1)]
    const ends = forms.map((form) => body.indexOf(form, from) + form.length)
    const found = ends.filter((end, index) => end >= from + forms[index]!.length)
    if (found.length === 0) return false
    from = Math.min(...found)
  }
  return true
}
