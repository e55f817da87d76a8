import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { CllmError, type EngineDirectory, type Protocol } from '@cllm/core'
import { type ServedProtocol, testProtocol, type TestProtocolOptions } from '@cllm/testing'
import t from 'tap'
import { RecordingContext } from '../recording-context.js'

interface Defects {
  readonly forgetsOthers?: boolean
  readonly ignoresLeaving?: boolean
  readonly losesText?: boolean
  readonly losesStream?: boolean
  readonly answersItself?: boolean
  readonly hidesStatus?: boolean
  readonly plainErrors?: boolean
  readonly crashesOnNonsense?: boolean
  readonly takesAllPaths?: boolean
  readonly staysOpen?: boolean
  readonly hidesFailure?: boolean
}

/** A protocol on bare node:http, with the defects that are asked for. */
function serveWith(defects: Defects) {
  return async (directory: EngineDirectory, beside: Protocol): Promise<ServedProtocol> => {
    if (!defects.forgetsOthers) beside.mount?.(undefined, directory)
    const server = createServer((request, response) => {
      answer(request, response, directory, defects).catch((error: unknown) => {
        fail(response, CllmError.from(error), defects)
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      async close() {
        if (defects.staysOpen) {
          server.unref()
          return
        }
        const closed = once(server, 'close')
        server.close()
        server.closeAllConnections()
        await closed
      },
    }
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  directory: EngineDirectory,
  defects: Defects,
): Promise<void> {
  const stream = request.url === '/stream'
  if (!stream && request.url !== '/text' && !defects.takesAllPaths) {
    throw new CllmError('not_found', 'There is no such path')
  }
  const { prompt, maxTokens } = await readJson(request, defects)
  const leaving = new AbortController()
  if (!defects.ignoresLeaving) response.once('close', () => leaving.abort())
  let text = defects.answersItself ? 'Hello!' : ''
  const events = directory
    .open()
    .submit({ prompt: { text: prompt }, maxTokens }, { signal: leaving.signal })
  if (!defects.answersItself) {
    for await (const event of events) {
      if (event.type === 'start') continue
      text += event.text
      if (stream && defects.losesStream !== true) response.write(event.text)
    }
  }
  const type = { 'content-type': 'application/json' }
  if (!stream) response.writeHead(200, type)
  response.end(
    stream
      ? defects.losesStream
        ? 'data: [DONE]\n\n'
        : ''
      : JSON.stringify({ text: defects.losesText ? '' : text }),
  )
}

async function readJson(
  request: IncomingMessage,
  defects: Defects,
): Promise<{ prompt: string; maxTokens: number }> {
  try {
    return (await json(request)) as { prompt: string; maxTokens: number }
  } catch (error) {
    if (defects.crashesOnNonsense) throw error
    throw new CllmError('invalid_json', 'The body is not JSON', { cause: error })
  }
}

function fail(response: ServerResponse, error: CllmError, defects: Defects): void {
  if (response.headersSent) {
    if (defects.hidesFailure) response.end()
    else response.destroy()
    return
  }
  const type = { 'content-type': defects.plainErrors ? 'text/plain' : 'application/json' }
  response.writeHead(defects.hidesStatus ? 200 : error.status, type)
  response.end(defects.plainErrors ? error.message : JSON.stringify({ error: error.message }))
}

const options: TestProtocolOptions = {
  request: (prompt, maxTokens, stream) => ({
    path: stream ? '/stream' : '/text',
    body: JSON.stringify({ prompt, maxTokens }),
  }),
}

await testProtocol(t, serveWith({}), options)
await testProtocol(t, serveWith({}), {
  request: (prompt, maxTokens, stream) =>
    stream ? undefined : options.request(prompt, maxTokens, stream),
})

const broken: [string, RegExp, Defects][] = [
  ['does not mount the others', /mounted beside another.*times that/s, { forgetsOthers: true }],
  ['loses text', /is answered with the text: .* is not in/s, { losesText: true }],
  [
    'loses the text of streams',
    /is answered with the text: .* is not in\s+data: \[DONE\]/s,
    { losesStream: true },
  ],
  ['does not ask the engine', /the engine was not asked/, { answersItself: true }],
  [
    'answers 200 to failures',
    /status of its code: .*an example of prompt_too_long/s,
    { hidesStatus: true },
  ],
  ['has errors without JSON', /sent as JSON, instead got text\/plain/, { plainErrors: true }],
  [
    'calls nonsense its own defect',
    /is refused when its body is not JSON: /,
    { crashesOnNonsense: true },
  ],
  ['takes all paths', /leaves unknown paths alone/, { takesAllPaths: true }],
  [
    'ends a stream that failed like a whole one',
    /failure in the middle.*: it ends like a whole answer/s,
    { hidesFailure: true },
  ],
  ['stays open', /closes: .*it still answers/, { staysOpen: true }],
]

t.test('the suite finds a protocol that', async (t) => {
  for (const [defect, message, defects] of broken) {
    const recording = new RecordingContext()
    await testProtocol(recording, serveWith(defects), options)
    t.match(recording.failures.join('\n'), message, defect)
  }
  // In one of its requests: that nothing happens takes seconds to be sure of.
  const recording = new RecordingContext()
  await testProtocol(recording, serveWith({ ignoresLeaving: true }), {
    request: (prompt, maxTokens, stream) =>
      stream ? options.request(prompt, maxTokens, stream) : undefined,
  })
  t.match(recording.failures.join('\n'), /the protocol cancels the request does not happen/)
})
