import type { EndedActivity, WaitingActivity } from '@cllm/core'
import { useState } from 'preact/hooks'
import { DataTable, numbers } from '../parts/data-table.js'
import { formatMs, formatShare } from '../parts/format.js'
import { type LiveProps, tenantsOf } from './live-state.js'
import { cachedText, mainReason, reasonText } from './words.js'
import { Quiet } from '../parts/form.js'

/** The beginning of a request's id, which leads to what happened to it. */
export const linkTo = (id: string) => (
  <a href={`#scheduler/${id}`} title={id}>
    {id.slice(0, 8)}
  </a>
)

/** How many waiting requests are shown before one asks for all. */
const firstWaiting = 8

/** Who waits, how long it will take, and why. */
export function Queue({ state: { queue, waiting, now } }: LiveProps) {
  const [isWhole, setWhole] = useState(false)
  if (waiting === 0) return null
  const more = queue.length - firstWaiting
  return (
    <section class="card" aria-label="Queue">
      <h2>Queue: {waiting}</h2>
      <DataTable
        label="Requests that wait"
        rows={isWhole ? queue : queue.slice(0, firstWaiting)}
        keyOf={({ id }) => id}
        columns={[
          { name: 'request', cell: ({ id }) => linkTo(id) },
          { name: 'tenant', cell: ({ tenant }) => tenant },
          numbers<WaitingActivity>('waits', ({ arrival }) => formatMs(now - arrival)),
          numbers<WaitingActivity>('predicted TTFT', ({ predictedMs }) => formatMs(predictedMs)),
          numbers<WaitingActivity>('slot in', ({ slotInMs }) => formatMs(slotInMs)),
          { name: 'why', cell: ({ reasons }) => reasonText(mainReason(reasons)) },
        ]}
      />
      {more > 0 && (
        <Quiet onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Show fewer' : `Show ${more} more`}
        </Quiet>
      )}
      {waiting > queue.length && <p class="hint">The first {queue.length} are listed.</p>}
    </section>
  )
}

/** How many ended requests are shown. */
const mostEnded = 8

/** The requests of the last minute that ended last: what each took, and what it had for nothing. */
export function EndedRequests({ state: { frames } }: LiveProps) {
  const ended = frames.flatMap((frame) => frame.ended)
  return (
    <section class="card" aria-label="Requests that ended">
      <h2>Requests that ended</h2>
      {ended.length === 0 ? (
        <p class="hint">None seen in the last minute: write in the chat, or use the API.</p>
      ) : (
        <DataTable
          label="The last ones"
          rows={ended.slice(-mostEnded).reverse()}
          keyOf={({ id }) => id}
          columns={[
            { name: 'request', cell: ({ id }) => linkTo(id) },
            { name: 'tenant', cell: ({ tenant }) => tenant },
            { name: 'state', cell: ({ state }) => state.replace('_', ' ') },
            numbers<EndedActivity>('waited', ({ queueMs }) => formatMs(queueMs)),
            numbers<EndedActivity>('answer tokens', (one) => one.generatedTokens),
            { name: 'prompt tokens from the cache', label: 'cached', cell: cachedText },
          ]}
        />
      )}
    </section>
  )
}

/** Whose tokens were computed, and how many were not, since the cache had them. */
export function Tenants({ state: { frames } }: LiveProps) {
  const tenants = tenantsOf(frames)
  return (
    <section class="card" aria-label="Tenants">
      <h2>Tenants' shares</h2>
      {tenants.length === 0 && <p class="hint">Nothing was seen in the last minute.</p>}
      <table>
        <tbody>
          {tenants.map(({ tenant, share, cachedShare }) => (
            <tr key={tenant}>
              <th scope="row">{tenant}</th>
              <td>
                <meter min={0} max={1} value={share} aria-label={`Share of ${tenant}`} />{' '}
                {formatShare(share)}
              </td>
              <td>
                {cachedShare !== undefined && `${formatShare(cachedShare)} of prompts cached`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
