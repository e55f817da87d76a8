import { Conversation } from './conversation.mjs'
import { longAsk } from './long-ask.mjs'

const pass = (came) => ({ verdict: 'pass', came })
const sleep = async (ms) => await new Promise((resolve) => setTimeout(resolve, ms))

/** Sends enough long requests to fill the server; resolves at the first token of any of them. */
async function crowd({ target, options }) {
  const { clients, restartMs } = options
  const all = Array.from(
    { length: clients },
    (_, number) => new Conversation(target, longAsk(options, number), restartMs),
  )
  await Promise.race(all.map(async (each) => await each.chunks(1)))
  return all
}

async function leaveAll(all, phase) {
  for (const each of all) each.leave()
  await Promise.all(all.map(({ done }) => done))
  const refused = all.filter(({ heard }) => (heard.status ?? 200) !== 200).length
  return pass(`${all.length} disconnected ${phase}${refused > 0 ? `, ${refused} refused` : ''}`)
}

/** Faults where clients disconnect, each in a different phase of its request. */
const disconnects = [
  {
    name: 'disconnect: queued',
    expected: 'cancelled requests leave the queue',
    run: async (context) => {
      const running = await crowd(context)
      const late = await crowd(context)
      const outcome = await leaveAll(late, 'while queued')
      await leaveAll(running, '')
      return outcome
    },
  },
  {
    name: 'disconnect: prefill',
    expected: 'prompts of cancelled requests are not computed',
    run: async ({ target, options }) => {
      const all = Array.from(
        { length: options.clients },
        (_, number) => new Conversation(target, longAsk(options, 1000 + number), options.restartMs),
      )
      await Promise.all(all.map(async ({ sent }) => await sent))
      await Promise.race([sleep(50), ...all.map(async ({ head }) => await head)])
      return await leaveAll(all, 'before their first token')
    },
  },
  {
    name: 'disconnect: decode',
    expected: 'answers of cancelled requests are not computed',
    run: async (context) => await leaveAll(await crowd(context), 'during their answers'),
  },
  {
    name: 'disconnect: no stream',
    expected: 'answers of cancelled requests are not computed',
    run: async ({ target, options }) => {
      const { api } = target
      const whole = { ...target, api: { ...api, path: api.path.replace(/_stream$/, '') } }
      const unstreamed = { ...whole, extraBody: { ...target.extraBody, stream: false } }
      const all = Array.from(
        { length: options.clients },
        (_, number) =>
          new Conversation(unstreamed, longAsk(options, 2000 + number), options.restartMs),
      )
      await Promise.all(all.map(async ({ sent }) => await sent))
      await sleep(200)
      return await leaveAll(all, 'before the end of their answers')
    },
  },
]

const slowReader = {
  name: 'slow reader',
  expected: 'other clients are served meanwhile; the answer completes or ends with an error',
  run: async ({ target, options, canary }) => {
    const readers = Array.from({ length: 4 }, (_, number) => {
      return new Conversation(target, longAsk(options, 3000 + number), options.restartMs)
    })
    await Promise.all(readers.map(async (reader) => await reader.chunks(1)))
    for (const reader of readers) reader.pause()
    const problem = await canary.problem(options.recoveryMs)
    for (const reader of readers) reader.resume()
    const heard = await Promise.all(readers.map(({ done }) => done))
    if (problem !== undefined) return { verdict: 'fail', came: `meanwhile: ${problem}` }
    const cut = heard.filter(({ ended, error }) => !ended && error === undefined)
    if (cut.length > 0) return { verdict: 'fail', came: `${cut.length} cut off: ${cut[0]?.broken}` }
    return pass(`${heard.filter(({ ended }) => ended).length} of ${heard.length} completed`)
  },
}

/** Faults of clients that use valid HTTP. */
export const clientFaults = [...disconnects, slowReader]
