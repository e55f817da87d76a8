import type { JSX } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { StackedChart } from '../parts/charts.js'
import { Problem, Select } from '../parts/form.js'
import { Slots, Tiers } from './kv-tables.js'
import { Gantt } from './gantt.js'
import { type LiveState, shownMs, tokensBySecond } from './live-state.js'
import { PolicyForm } from './policy-form.js'
import { RequestPanel } from './request-panel.js'
import { EndedRequests, Figures, Queue, Tenants } from './tables.js'
import { useLive } from './follow-live.js'
import { useServer } from '../server/server.js'

/** Milliseconds between two pictures of what changes little from one message to the next. */
const slowMs = 2000

const choose = (id: string): void => {
  location.hash = `scheduler/${id}`
}

/** The scheduler at work: what every slot does, who waits and why, and which policy decides. */
export function SchedulerPage({
  models,
  request,
}: {
  readonly models: readonly string[]
  /** The request to explain. */
  readonly request: string | undefined
}): JSX.Element {
  const server = useServer()
  const [model, setModel] = useState('')
  const { state, problem } = useLive(server, model)
  return (
    <div class="live">
      <h1>Scheduler</h1>
      {models.length > 1 && (
        <Select
          class="narrow"
          label="Model"
          value={model}
          options={[['', "the server's default"], ...models]}
          onChoose={setModel}
        />
      )}
      <Problem text={problem} />
      {request !== undefined && <RequestPanel id={request} />}
      {state === undefined ? (
        <p class="hint">Waiting for the engine …</p>
      ) : (
        <Live state={state} request={request} model={model} />
      )}
    </div>
  )
}

function Live({
  state,
  request,
  model,
}: {
  readonly state: LiveState
  readonly request: string | undefined
  readonly model: string
}): JSX.Element {
  const { now, slots, spans } = state
  const slow = useSlow(state)
  // The same elements are not compared again.
  const tables = useMemo(
    () => [
      <Slots key="slots" state={slow} />,
      <Tiers key="tiers" state={slow} />,
      <Tenants key="tenants" state={slow} />,
    ],
    [slow],
  )
  const ended = useMemo(() => <EndedRequests state={slow} />, [slow])
  const figures = useMemo(() => <Figures state={slow} />, [slow])
  const steps = useMemo(() => <Steps state={slow} />, [slow])
  // Requests that wait now have no span of it yet.
  const waits = state.queue.map(({ id, arrival }) => {
    return { id, kind: 'wait', atMs: arrival, untilMs: now, tokens: 0 } as const
  })
  const busy = slots.filter(({ request }) => request !== undefined).length
  const picture = {
    slots: slots.length,
    spans: [...spans, ...waits],
    fromMs: now - shownMs,
    untilMs: now,
    chosen: request,
  }
  return (
    <>
      <section class="card" aria-label="Slots over time">
        <h2>Slots, the last 20 seconds</h2>
        <Gantt
          picture={picture}
          label={`${busy} of ${slots.length} slots busy, ${state.waiting} requests wait`}
          onChoose={choose}
        />
      </section>
      <Queue state={state} />
      {ended}
      <div class="cards">
        {figures}
        <PolicyForm model={model} inForce={state.policy} />
        {steps}
        {tables}
      </div>
    </>
  )
}

function Steps({ state: { frames, now } }: { readonly state: LiveState }): JSX.Element {
  const { prompts, answers } = tokensBySecond(frames, now)
  return (
    <section class="card" aria-label="Steps">
      <h2>What steps compute, the last minute</h2>
      <StackedChart
        label="Tokens of answers and prompts in each of the last 60 seconds"
        series={[
          { name: 'answers', kind: 'decode', values: answers },
          { name: 'prompts', kind: 'prefill', values: prompts },
        ]}
        unit="tokens/s"
      />
    </section>
  )
}

/** The state as it was at most {@link slowMs} ago; at once when a request comes first, or the last one ends. */
function useSlow(state: LiveState): LiveState {
  const shown = useRef(state)
  const isBusy = ({ slots }: LiveState): boolean =>
    slots.some(({ request }) => request !== undefined)
  const { current } = shown
  const isOld = state.now - current.now >= slowMs || state.now < current.now
  if (isOld || isBusy(state) !== isBusy(current)) shown.current = state
  return shown.current
}
