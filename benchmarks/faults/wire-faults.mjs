import { nextNumber } from '../../packages/core/dist/index.js'
import { urlOf } from '../../packages/bench/dist/load/load-options.js'
import { Canary } from './canary.mjs'
import { longAsk } from './long-ask.mjs'
import { postHead, RawConnection } from './raw-connection.mjs'

const oversizedBytes = 32 * 1024 * 1024

function refusal({ statuses, isClosed }) {
  const [status] = statuses
  if (status !== undefined && status >= 400 && status < 500)
    return { verdict: 'pass', came: `${status}` }
  if (status !== undefined) return { verdict: 'fail', came: `${status}` }
  return isClosed
    ? { verdict: 'pass', came: 'the connection was closed' }
    : { verdict: 'fail', came: 'no answer in time' }
}

/** Sends bytes on a new connection and judges the answer. */
const refused = (name, make) => ({
  name,
  expected: 'a status from 400 to 499, or the connection is closed',
  run: async (context) => {
    const connection = new RawConnection(context.target)
    void connection.send(make(context))
    const outcome = refusal(await connection.answers(1, context.options.recoveryMs))
    connection.close()
    return outcome
  },
})

const halfOpen = {
  name: 'half-open sockets',
  expected: 'other clients are served meanwhile',
  run: async ({ target, options, canary }) => {
    const body = JSON.stringify(target.api.body(longAsk(options, 4000)))
    const head = postHead(target, { 'content-length': body.length })
    const beginnings = ['', head.slice(0, 20), head, head + body.slice(0, body.length / 2)]
    const open = beginnings.flatMap((text) =>
      Array.from({ length: 8 }, () => {
        const connection = new RawConnection(target)
        void connection.opened.then(async () => await connection.send(text))
        return connection
      }),
    )
    await Promise.all(open.map(({ opened }) => opened))
    const problem = await canary.problem(options.recoveryMs)
    for (const connection of open) connection.close()
    return problem === undefined
      ? { verdict: 'pass', came: `served with ${open.length} open` }
      : { verdict: 'fail', came: `meanwhile: ${problem}` }
  },
}

const pipelined = {
  name: 'pipelined requests',
  expected: 'every request is answered',
  run: async ({ target, options }) => {
    const { model } = target
    const ask = model === undefined ? Canary.ask : { ...Canary.ask, model }
    const body = JSON.stringify({ ...target.api.body(ask), ...target.extraBody })
    const one = postHead(target, { 'content-length': Buffer.byteLength(body) }) + body
    const connection = new RawConnection(target)
    const count = 4
    void connection.send(one.repeat(count))
    const { statuses } = await connection.answers(count, options.recoveryMs)
    connection.close()
    const isGood = statuses.length === count && statuses.every((status) => status === 200)
    return {
      verdict: isGood ? 'pass' : 'fail',
      came: `${count} sent: ${statuses.join(' ') || 'none'}`,
    }
  },
}

const manyConnections = {
  name: 'many connections',
  expected: 'other clients are served meanwhile; each connection is answered or refused',
  run: async ({ target, options, canary }) => {
    const all = Array.from({ length: options.connections }, () => new RawConnection(target))
    const opened = await Promise.all(all.map(async ({ opened: isOpen }) => await isOpen))
    const problem = await canary.problem(options.recoveryMs)
    const get = `GET ${urlOf(target, '/').pathname} HTTP/1.1\r\nhost: ${target.url.host}\r\n\r\n`
    const answers = await Promise.all(
      all.map(async (connection) => {
        await connection.send(get)
        return await connection.answers(1, options.recoveryMs)
      }),
    )
    for (const connection of all) connection.close()
    if (problem !== undefined) return { verdict: 'fail', came: `meanwhile: ${problem}` }
    const answered = answers.filter(({ statuses }) => statuses.length > 0).length
    const mute = answers.filter(
      ({ statuses, isClosed }) => statuses.length === 0 && !isClosed,
    ).length
    const came = `${opened.filter(Boolean).length} opened, ${answered} answered, ${mute} left waiting`
    return { verdict: mute === 0 ? 'pass' : 'fail', came }
  },
}

/** Deterministic bytes that are not valid HTTP. */
function noise(length) {
  let state = 7
  return Buffer.from(Array.from({ length }, () => (state = nextNumber(state)) >>> 24))
}

/** Faults on connections that violate HTTP or its usual limits. */
export const wireFaults = [
  halfOpen,
  // The blank line ends the head, for servers that wait for its end.
  refused('garbage bytes', () => Buffer.concat([noise(4096), Buffer.from('\r\n\r\n')])),
  refused('garbage in the body', ({ target }) => {
    const body = noise(512)
    return Buffer.concat([Buffer.from(postHead(target, { 'content-length': body.length })), body])
  }),
  refused('oversized body', ({ target, options }) => {
    const ask = { ...longAsk(options, 0), prompt: 'x'.repeat(oversizedBytes) }
    const body = JSON.stringify(target.api.body(ask))
    return postHead(target, { 'content-length': body.length }) + body
  }),
  refused('oversized headers', ({ target }) =>
    postHead(target, { 'content-length': 0, 'x-large': 'x'.repeat(1024 * 1024) }),
  ),
  pipelined,
  manyConnections,
]
