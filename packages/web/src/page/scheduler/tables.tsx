import type { JSX } from 'preact'
import { ColumnHeads } from '../parts/column-heads.js'
import { formatMs, formatShare } from '../parts/format.js'
import {
  figuresOf,
  itlPercentiles,
  type LiveState,
  type Percentiles,
  percentilesOf,
} from './live-state.js'
import { mainReason, reasonText } from './reasons.js'
import { RequestLink } from './request-link.js'

interface Props {
  readonly state: LiveState
}

/** TTFT, ITL and throughput of the last minute. */
export function Figures({ state }: Props): JSX.Element {
  const { frames, now, lost } = state
  const figures = figuresOf(frames, now)
  const ttft = percentilesOf(frames.flatMap(({ firstTokensMs }) => firstTokensMs))
  const row = (name: string, values: Percentiles | undefined): JSX.Element => (
    <tr>
      <th scope="row">{name}</th>
      {[values?.p50, values?.p90, values?.p99].map((value, index) => (
        <td class="number" key={index}>
          {value === undefined ? '–' : formatMs(value)}
        </td>
      ))}
    </tr>
  )
  return (
    <section class="card" aria-label="Figures">
      <h2>The last minute</h2>
      <table>
        <thead>
          <tr>
            <td />
            <ColumnHeads names={['p50', 'p90', 'p99']} numbers />
          </tr>
        </thead>
        <tbody>
          {row('TTFT', ttft)}
          {row('ITL', itlPercentiles(frames))}
        </tbody>
      </table>
      <p>
        {figures.tokensPerSecond.toFixed(1)} tokens/s, {figures.requests} requests ended,{' '}
        {figures.stepTokens.toFixed(1)} tokens and {formatMs(figures.stepMs)} a step
        {figures.cachedShare !== undefined &&
          `, ${formatShare(figures.cachedShare)} of prompt tokens from the cache`}
        {lost > 0 && `; ${lost} messages were lost because the page was slow`}
      </p>
    </section>
  )
}

/** Who waits, how long it will take, and why. */
export function Queue({ state: { queue, waiting, now } }: Props): JSX.Element {
  return (
    <section class="card" aria-label="Queue">
      <h2>Queue: {waiting}</h2>
      {queue.length > 0 && (
        <div class="scroll queue" tabIndex={0} role="region" aria-label="Requests that wait">
          <table class="stacks">
            <thead>
              <tr>
                <ColumnHeads
                  names={['request', 'tenant', 'waits', 'predicted TTFT', 'slot in', 'why']}
                />
              </tr>
            </thead>
            <tbody>
              {queue.map((one) => (
                <tr key={one.id}>
                  <td data-label="request">
                    <RequestLink id={one.id} />
                  </td>
                  <td data-label="tenant">{one.tenant}</td>
                  <td data-label="waits">{formatMs(now - one.arrival)}</td>
                  <td data-label="predicted TTFT">
                    {one.predictedMs === undefined ? '–' : formatMs(one.predictedMs)}
                  </td>
                  <td data-label="slot in">{formatMs(one.slotInMs)}</td>
                  <td data-label="why">{reasonText(mainReason(one.reasons))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

/** Whose tokens were computed, and how many were not, since the cache had them. */
export function Tenants({ state: { frames, now } }: Props): JSX.Element {
  const { tenants, cachedBy } = figuresOf(frames, now)
  return (
    <section class="card" aria-label="Tenants">
      <h2>Tenants' shares</h2>
      {tenants.length === 0 && <p class="hint">Nothing was computed in the last minute.</p>}
      <table>
        <tbody>
          {tenants.map(([tenant, share]) => (
            <tr key={tenant}>
              <th scope="row">{tenant}</th>
              <td>
                <meter min={0} max={1} value={share} aria-label={`Share of ${tenant}`} />{' '}
                {formatShare(share)}
              </td>
              <td>
                {cachedBy.has(tenant) &&
                  `${formatShare(cachedBy.get(tenant) ?? 0)} of prompts cached`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
