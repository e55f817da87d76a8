import { useMemo } from 'preact/hooks'
import { Chart } from '../parts/chart.js'
import { DataTable, numbers } from '../parts/data-table.js'
import { counted, formatMs, formatShare } from '../parts/format.js'
import { figuresOf, itlPercentiles, tokensBySecond, ttftPercentiles } from './live-state.js'
import type { LiveProps, Percentiles } from './live-state.js'

/** The main figures, in large: load, speed, and the policy in force. */
export function Tiles({ state }: LiveProps) {
  const { slots, waiting, frames, now, policy } = state
  const busy = slots.filter(({ request }) => request !== undefined).length
  const ttft = ttftPercentiles(frames)
  const { tokensPerSecond } = figuresOf(frames, now)
  const tiles: readonly (readonly [name: string, value: string, kind?: string])[] = [
    ['Busy slots', `${busy} of ${slots.length}`],
    ['Queue', String(waiting)],
    ['Tokens/s (1 min)', tokensPerSecond.toFixed(1)],
    ['TTFT p50 (1 min)', formatMs(ttft?.p50)],
    ['Policy', policy.replaceAll('+', '+\u200b' /* where a line may end */), 'name'],
  ]
  return (
    <dl class="tiles" aria-label="Now">
      {tiles.map(([name, value, kind]) => (
        <div class="tile" key={name}>
          <dt>{name}</dt>
          <dd class={kind}>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** TTFT, ITL and throughput of the last minute. */
export function Figures({ state }: LiveProps) {
  const { frames, now, lost } = state
  const figures = figuresOf(frames, now)
  const ttft = ttftPercentiles(frames)
  const percentile = (name: keyof Percentiles) =>
    numbers<readonly [string, Percentiles | undefined]>(name, ([, of]) => formatMs(of?.[name]))
  return (
    <section class="card" aria-label="Figures">
      <h2>Times, the last minute</h2>
      <DataTable
        label="Times"
        stacks={false}
        rows={[['TTFT', ttft] as const, ['ITL', itlPercentiles(frames)] as const]}
        keyOf={([name]) => name}
        columns={[
          { name: '', kind: 'head', cell: ([name]) => name },
          percentile('p50'),
          percentile('p90'),
          percentile('p99'),
        ]}
      />
      <p>
        {counted(figures.requests, 'request')} ended, {figures.tokensPerSecond.toFixed(1)} tokens/s,{' '}
        {figures.stepTokens.toFixed(1)} tokens and {formatMs(figures.stepMs)} a step
        {figures.cachedShare !== undefined &&
          `, ${formatShare(figures.cachedShare)} of prompt tokens from the cache`}
        {lost > 0 && `; ${counted(lost, 'message')} lost because the page was slow`}
      </p>
    </section>
  )
}

const options = {
  caption: 'Tokens computed, the last minute',
  x: { title: 'seconds, of the last 60' },
  y: { title: 'tokens per second' },
}

const format = {
  x: (second: number): string => `${Math.max(0, 60 - Math.floor(second))} s ago`,
  y: (tokens: number): string => `${Math.round(tokens)} tokens/s`,
}

/** A chart of the tokens computed each second: of answers and, stacked on them, of prompts. */
export function StepsChart({ state }: LiveProps) {
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
