import { sum } from 'simple-statistics'
import { textsOf } from '../report/figures.js'
import { generatedTokens, type RunRecord } from './run-record.js'
import type { Summary } from './summarize.js'

/** Warnings that a reader of a run's figures must know. */
export function warningsOf(
  records: readonly RunRecord[],
  summary: Summary,
  eventLoopP99Ms: number,
  laps = 0,
): string[] {
  const ok = records.filter(({ outcome }) => outcome === 'ok')
  return textsOf(
    ok.length === 0 && 'no request succeeded',
    ...countWarnings(ok),
    ...lengthWarnings(ok),
    ...lagWarnings(summary, eventLoopP99Ms),
    ...lapWarnings(laps),
  )
}

/** Of a dataset that was shorter than the load. */
export const lapWarnings = (laps: number): readonly string[] =>
  laps === 0 ? [] : [`the dataset began anew ${laps} times, with other prompts each time`]

function countWarnings(ok: readonly RunRecord[]): string[] {
  const counted = ok.filter(({ usage }) => usage?.generatedTokens !== undefined)
  if (counted.length < ok.length) {
    const part = `${ok.length - counted.length} of ${ok.length} answers`
    return [`the server gave no token count in ${part}: their chunks are counted instead`]
  }
  // Tolerates one chunk per request: text that was held back may arrive as an extra chunk.
  const off = counted.filter((record) => {
    const difference = Math.abs(generatedTokens(record) - record.arrivedTokens)
    return difference > Math.max(1, 0.05 * generatedTokens(record))
  })
  if (off.length === 0) return []
  const told = sum(off.map(generatedTokens))
  const arrived = sum(off.map(({ arrivedTokens }) => arrivedTokens))
  return [
    `the server's token counts disagree with what arrived in ${off.length} of ${ok.length} answers: ` +
      `${told} tokens reported, ${arrived} arrived. ITL is per chunk, TPOT per reported token`,
  ]
}

function lengthWarnings(ok: readonly RunRecord[]): string[] {
  const short = ok.filter((record) => generatedTokens(record) < record.asked.outputTokens)
  const counted = ok.filter(({ usage }) => usage?.promptTokens !== undefined)
  const asked = sum(counted.map((record) => record.asked.inputTokens))
  const real = sum(counted.map(({ usage }) => usage?.promptTokens ?? 0))
  return textsOf(
    short.length > 0 && `${short.length} of ${ok.length} answers are shorter than asked`,
    Math.abs(real - asked) > 0.2 * asked &&
      `prompts have ${real} tokens by the server's count, but ${asked} were intended`,
  )
}

function lagWarnings({ sendLagMs }: Summary, eventLoopP99Ms: number): string[] {
  const limit = 5
  const late = sendLagMs?.p99 ?? 0
  return textsOf(
    late > limit &&
      `requests were sent late, p99 ${late.toFixed(1)} ms: the load is not the requested one`,
    eventLoopP99Ms > limit &&
      `this client was busy, p99 ${eventLoopP99Ms.toFixed(1)} ms: times are too long by that`,
  )
}
