import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { Chart } from '../parts/chart.js'
import { type LiveState, tokensBySecond } from './live-state.js'

const options = {
  caption: 'Tokens computed, the last minute',
  x: { title: 'seconds, of the last 60' },
  y: { title: 'tokens per second' },
}

const format = {
  x: (second: number): string => `${Math.max(0, 60 - Math.floor(second))} s ago`,
  y: (tokens: number): string => `${Math.round(tokens)} tokens/s`,
}

/** What steps compute: tokens of answers and, on top of them, of prompts, second by second. */
export function StepsChart({ state }: { readonly state: LiveState }): JSX.Element {
  const series = useMemo(() => {
    const { prompts, answers } = tokensBySecond(state.frames, state.now)
    const points = (values: readonly number[]) =>
      [...values, values.at(-1) ?? 0].map((value, second) => [second, value] as const)
    return [
      { name: 'answers', points: points(answers) },
      { name: 'prompts', points: points(prompts) },
    ]
  }, [state])
  return (
    <section class="card" aria-label="Steps">
      <Chart kind="areas" {...{ options, series, format }} />
    </section>
  )
}
