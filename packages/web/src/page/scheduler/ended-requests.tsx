import type { JSX } from 'preact'
import { ColumnHeads } from '../parts/column-heads.js'
import { formatMs } from '../parts/format.js'
import { cachedText } from './cache-words.js'
import type { LiveState } from './live-state.js'
import { RequestLink } from './request-link.js'

/** How many are shown. */
const most = 8

/** The requests of the last minute that ended last: what each took, and what it had for nothing. */
export function EndedRequests({
  state: { frames },
}: {
  readonly state: Pick<LiveState, 'frames'>
}): JSX.Element {
  const ended = frames.flatMap((frame) => frame.ended)
  return (
    <section class="card" aria-label="Requests that ended">
      <h2>Requests that ended</h2>
      {ended.length === 0 ? (
        <p class="hint">None in the last minute.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="The last ones">
          <table class="stacks">
            <thead>
              <tr>
                <ColumnHeads names={['request', 'tenant', 'state']} />
                <ColumnHeads names={['waited', 'answer tokens']} numbers />
                <ColumnHeads names={['prompt tokens from the cache']} />
              </tr>
            </thead>
            <tbody>
              {ended
                .slice(-most)
                .reverse()
                .map((one) => (
                  <tr key={one.id}>
                    <td data-label="request">
                      <RequestLink id={one.id} />
                    </td>
                    <td data-label="tenant">{one.tenant}</td>
                    <td data-label="state">{one.state.replace('_', ' ')}</td>
                    <td class="number" data-label="waited">
                      {formatMs(one.queueMs)}
                    </td>
                    <td class="number" data-label="answer tokens">
                      {one.generatedTokens}
                    </td>
                    <td data-label="cached">{cachedText(one)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
