import { Conversation } from './conversation.mjs'
import { longAsk } from './long-ask.mjs'

/** Disturbs the engine's process while two streams run, and judges how they end. */
async function disturb({ target, options, engine }, what) {
  if (engine === undefined) return skip('needs --pid or --engine-pid')
  const pid = await engine.find()
  if (pid === undefined) return skip('the server has no engine process')
  const ask = longAsk(options, 5000)
  const pair = () =>
    Array.from({ length: 2 }, () => new Conversation(target, ask, options.restartMs))
  // What runs beside a stream changes the rounding: alone, and two at a time as below.
  const alone = await new Conversation(target, ask, options.restartMs).done
  const together = await Promise.all(pair().map(({ done }) => done))
  const undisturbed = new Set([alone, ...together].map(({ text }) => text))
  const streams = pair()
  await Promise.all(streams.map(async (stream) => await stream.chunks(2)))
  await what(pid, engine.signal)
  const heard = await Promise.all(streams.map(({ done }) => done))
  const whole = heard.filter(({ ended, error }) => ended && error === undefined)
  const same = whole.filter(({ text }) => undisturbed.has(text)).length
  const told = heard.filter(({ error }) => error !== undefined).length
  const cut = heard.length - whole.length - told
  const ends = `${told > 0 ? `, ${told} ended with an error` : ''}${cut > 0 ? `, ${cut} were cut off` : ''}`
  const came = `${whole.length} of ${heard.length} streams completed, ${same} of them with the same text${ends}`
  return { verdict: cut > 0 ? 'fail' : 'pass', came }
}

const skip = (came) => ({ verdict: 'skip', came })

/** Faults of the engine's process. */
export const processFaults = [
  {
    name: 'engine: kill -9',
    expected: 'streams continue or end with an error, and the server recovers by itself',
    restarts: true,
    run: async (context) => await disturb(context, async (pid, signal) => signal(pid, 'SIGKILL')),
  },
  {
    name: 'engine: SIGSTOP',
    expected: 'streams continue or end with an error',
    restarts: true,
    run: async (context) =>
      await disturb(context, async (pid, signal) => {
        signal(pid, 'SIGSTOP')
        await new Promise((resolve) => setTimeout(resolve, context.options.stopMs))
        signal(pid, 'SIGCONT')
      }),
  },
  {
    name: 'clock jump',
    expected: 'deadlines and watchdogs do not fire',
    run: async () => skip('cannot be done over HTTP'),
  },
]
