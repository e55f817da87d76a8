import { formatMs } from '../parts/format.js'
import { useAnswer } from '../server.js'

interface Entry {
  readonly type: string
  readonly at_ms: number
  readonly until_ms?: number
  /** Absent where it is queued. */
  readonly sentence?: string
}

interface Report {
  readonly state: string
  readonly tenant: string
  readonly timings: Readonly<Record<string, number>>
  readonly timeline: readonly Entry[]
  /** Those of the timeline, after those on where the prompt departs from the call before. */
  readonly sentences: readonly string[]
}

const ended = ['done', 'cancelled', 'failed', 'timed_out']

/** Scrolls to a panel that appears, and gives it the focus, unless the arrow keys choose requests in the picture. */
function show(panel: HTMLElement | null): void {
  panel?.scrollIntoView({ block: 'nearest' })
  if (document.activeElement?.matches(':has(> .gantt)') !== true) panel?.focus()
}

/** Explains one request: what happened to it, and why it waited. */
export function RequestPanel({ id }: { readonly id: string }) {
  const path = `requests/${encodeURIComponent(id)}`
  const { answer, problem } = useAnswer<{ readonly data: Report }>(path, {
    everyMs: 1000,
    goesOn: ({ data }) => !ended.includes(data.state),
  })
  const source = () => document.querySelector<HTMLElement>(`.body [title="${CSS.escape(id)}"]`)
  return (
    <section class="card" aria-label="A request" ref={show} tabIndex={-1}>
      <div class="card-head">
        <h2>
          Request <code>{id}</code>
        </h2>
        <a href="#scheduler" onClick={() => source()?.focus()}>
          Close
        </a>
      </div>
      {problem !== undefined && <p class="problem">{problem}</p>}
      {answer !== undefined && <Timeline report={answer.data} />}
    </section>
  )
}

function Timeline({ report }: { readonly report: Report }) {
  const { timings, timeline, state, tenant, sentences } = report
  const told = new Set(timeline.map(({ sentence }) => sentence))
  const parting = sentences.filter((sentence) => !told.has(sentence))
  const hasBegun = timeline.some(({ type }) => type === 'first_token')
  const total = Math.max(1, ...timeline.map(({ at_ms, until_ms = at_ms }) => until_ms))
  return (
    <>
      <p>
        {state.replace('_', ' ')}, tenant {tenant}:{' '}
        {hasBegun && `TTFT ${formatMs(timings['ttft_ms'] ?? 0)}, `}
        {timings['cached_tokens']} of {timings['prompt_tokens']} prompt tokens cached,{' '}
        {timings['generated_tokens']} generated
      </p>
      {parting.length > 0 && <p class="hint">{parting.join(' ')}</p>}
      <ol class="timeline">
        {timeline.map((entry, index) => {
          // The answer lasts from its first token to the end.
          const isAnswer = entry.type === 'first_token'
          const { at_ms: at, until_ms: until = isAnswer ? total : at } = entry
          return (
            <li key={index}>
              <span class="when">{formatMs(at)}</span>
              <span>{entry.sentence ?? entry.type}</span>
              <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                <rect
                  class={barOf(entry.type)}
                  x={(100 * at) / total}
                  width={Math.max(0.6, (100 * (until - at)) / total)}
                  height="4"
                />
              </svg>
            </li>
          )
        })}
      </ol>
    </>
  )
}

const bars: Readonly<Record<string, string>> = {
  waited: 'wait',
  prefill: 'prefill',
  paused: 'pause',
  preempted: 'pause',
}

const barOf = (type: string): string => bars[type] ?? 'decode'
