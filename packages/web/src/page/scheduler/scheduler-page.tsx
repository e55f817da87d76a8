import { useMemo, useRef, useState } from 'preact/hooks'
import { Problem, Select } from '../parts/form.js'
import { Programs, Slots, Tiers } from './kv-tables.js'
import { Gantt } from './gantt.js'
import { type LiveProps, type LiveState, shownMs } from './live-state.js'
import { PolicyForm } from '../policy/policy-form.js'
import { RequestPanel } from './request-panel.js'
import { Figures, StepsChart, Tiles } from './figures.js'
import { EndedRequests, Queue, Tenants } from './tables.js'
import { useLive } from './follow-live.js'
import { Bar } from '../shell/bar.js'
import { counted } from '../parts/format.js'
import { useServer } from '../server.js'

/** Milliseconds between two updates of the parts that change little with each message. */
const slowMs = 2000

const choose = (id: string | undefined): void => {
  location.hash = id === undefined ? 'scheduler' : `scheduler/${id}`
}

interface SchedulerPageProps {
  readonly models: readonly string[]
  /** The id of the request to explain. */
  readonly request: string | undefined
}

/** The scheduler's live view: what every slot does, which requests wait and why, and the policy in force. */
export function SchedulerPage({ models, request }: SchedulerPageProps) {
  const server = useServer()
  const [model, setModel] = useState('')
  const { state, problem } = useLive(server, model)
  return (
    <>
      <Bar title="Scheduler">
        {models.length > 1 && (
          <Select
            label="Model"
            isLabelHidden
            value={model}
            options={models.map((name, index) => [index === 0 ? '' : name, name] as const)}
            onChoose={setModel}
          />
        )}
      </Bar>
      <div class="body live">
        <Problem text={problem} />
        {request !== undefined && <RequestPanel key={request} id={request} />}
        {state === undefined ? (
          <p class="hint">
            Waiting for the engine … <a href="#models">Models</a> loads one that is not in memory.
          </p>
        ) : (
          <Live state={state} request={request} model={model} />
        )}
      </div>
    </>
  )
}

interface LiveViewProps extends LiveProps {
  readonly request: string | undefined
  readonly model: string
}

function Live({ state, request, model }: LiveViewProps) {
  const { now, slots, spans } = state
  const slow = useSlow(state)
  // Memoized: Preact skips elements that are the same.
  const [tiles, ended, ...cards] = useMemo(
    () =>
      [Tiles, EndedRequests, StepsChart, Figures, Slots, Tiers, Tenants].map((Part, index) => (
        <Part key={index} state={slow} />
      )),
    [slow],
  )
  // A waiting request has no span until its wait has ended.
  const waits = state.queue.map(({ id, arrival }) => {
    return { id, kind: 'wait', atMs: arrival, untilMs: now, tokens: 0 } as const
  })
  const busy = slots.filter(({ request }) => request !== undefined).length
  const picture = {
    slots: rowsFor(slots, spans),
    spans: [...spans, ...waits],
    fromMs: now - shownMs,
    untilMs: now,
    chosen: request,
  }
  return (
    <>
      {tiles}
      <section class="card" aria-label="Slots over time">
        <h2>Slots, the last 20 seconds</h2>
        <Gantt
          picture={picture}
          label={`${busy} of ${slots.length} slots busy, ${counted(state.waiting, 'request')} in the queue`}
          onChoose={choose}
        />
      </section>
      <Queue state={state} />
      <Programs model={model} />
      {ended}
      <div class="cards">
        <PolicyForm model={model} inForce={state.policy} />
        {cards}
      </div>
    </>
  )
}

/** With more slots than this, idle ones have no row. */
const mostIdleRows = 6

/** The slots to show: all if they are few, else those that were used. */
function rowsFor(slots: LiveState['slots'], spans: LiveState['spans']): number[] {
  const all = slots.map(({ slot }) => slot)
  const used = new Set(spans.map(({ slot }) => slot))
  return all.length <= mostIdleRows ? all : all.filter((slot) => used.has(slot))
}

/** The state, updated every {@link slowMs}; at once when the engine becomes busy or idle, or the past has come. */
function useSlow(state: LiveState): LiveState {
  const shown = useRef(state)
  const isBusy = ({ slots }: LiveState): boolean =>
    slots.some(({ request }) => request !== undefined)
  const { current } = shown
  const isOld = state.now - current.now >= slowMs || state.now < current.now
  const beginsAt = ({ frames, now }: LiveState): number => frames[0]?.atMs ?? now
  if (isOld || beginsAt(state) < beginsAt(current) || isBusy(state) !== isBusy(current))
    shown.current = state
  return shown.current
}
