import { Canary } from './canary.mjs'
import { clientFaults } from './client-faults.mjs'
import { processFaults } from './process-faults.mjs'
import { wireFaults } from './wire-faults.mjs'

/** All faults, in the order of injection. */
export const faults = [...clientFaults, ...wireFaults, ...processFaults]

/**
 * Injects one fault after another into a server, judges its behaviour, and checks that it answers
 * the canary in time afterwards. Yields each result when it is known; ends early when the signal
 * aborts or the server does not recover.
 */
export async function* runFaults(run) {
  const { target, options, engine, only = [], signal } = run
  const canary = new Canary(target)
  const problem = await canary.problem(options.restartMs)
  if (problem !== undefined) {
    yield { fault: 'none', expected: 'the canary is answered', verdict: 'fail', came: problem }
    return
  }
  const isAsked = ({ name }) => only.length === 0 || only.some((word) => name.startsWith(word))
  const asked = faults.filter(isAsked)
  for (const { name, expected, restarts = false, run: inject } of asked) {
    if (signal.aborted) return
    const outcome = await inject({ target, options, engine, canary })
    if (outcome.verdict === 'skip') {
      yield { fault: name, expected, ...outcome }
      continue
    }
    const began = performance.now()
    const ill = await canary.problem(restarts ? options.restartMs : options.recoveryMs)
    if (ill === undefined) {
      yield { fault: name, expected, ...outcome, recoveryMs: performance.now() - began }
    } else {
      const came = `${outcome.came}; the canary afterwards: ${ill}`
      yield { fault: name, expected, verdict: 'fail', came }
      // A server that has not recovered would make the next fault fail, too.
      if (name === asked.at(-1)?.name) return
      if ((await canary.problem(options.restartMs)) !== undefined) return
    }
  }
}
