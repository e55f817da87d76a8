import type { JSX } from 'preact'
import { formatMs } from '../parts/format.js'
import { figuresOf, type LiveState, percentilesOf } from './live-state.js'

/** What matters most, in large: how busy the engine is, how fast, and who decides. */
export function Tiles({ state }: { readonly state: LiveState }): JSX.Element {
  const { slots, waiting, frames, now, policy } = state
  const busy = slots.filter(({ request }) => request !== undefined).length
  const ttft = percentilesOf(frames.flatMap(({ firstTokensMs }) => firstTokensMs))
  const { tokensPerSecond } = figuresOf(frames, now)
  const tiles = [
    ['Busy slots', `${busy} of ${slots.length}`],
    ['Queue', String(waiting)],
    ['Tokens/s (1 min)', tokensPerSecond.toFixed(1)],
    ['TTFT p50 (1 min)', ttft === undefined ? '–' : formatMs(ttft.p50)],
  ] as const
  return (
    <dl class="tiles" aria-label="Now">
      {tiles.map(([name, value]) => (
        <div class="tile" key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      <div class="tile">
        <dt>Policy</dt>
        <dd class="name">
          {policy.split('+').map((half, index) => (
            <span key={half}>
              {index > 0 && (
                <>
                  +<wbr />
                </>
              )}
              {half}
            </span>
          ))}
        </dd>
      </div>
    </dl>
  )
}
