import type { EngineActivity, Recording } from '@cllm/core'
import { useEffect, useState } from 'preact/hooks'
import { isRefusal, ofModel, readEvents, type Server } from '../server.js'
import { type LiveState, withActivity } from './live-state.js'
import { withPast } from './past.js'

/** First delay before a broken stream is opened again, in milliseconds; it doubles each time, up to a maximum. */
const retryMs = 2000
const mostRetryMs = 30_000

/** The live view of an engine, or the reason why there is none. */
export interface Live {
  readonly state: LiveState | undefined
  readonly problem: string | undefined
}

/** The engine to follow, and the callbacks. */
export interface Following {
  readonly server: Pick<Server, 'call'>
  /** Empty: the server's default. */
  readonly model: string
  readonly signal: AbortSignal
  readonly tell: (live: Live) => void
  readonly pause?: (ms: number) => Promise<void>
}

/** Follows an engine's live view until the signal aborts, or the server wants another key. */
export async function followLive(following: Following): Promise<void> {
  const { server, model, signal, tell, pause = usualPause } = following
  let state: LiveState | undefined
  let waitMs = retryMs
  /** Reads the past once from the flight recorder; without one, the view begins empty. */
  const lookBack = async (): Promise<void> => {
    const response = await server.call(ofModel('admin/recorder', model), { signal })
    const recording = (await response.json()) as Recording
    if (state === undefined || signal.aborted) return
    state = withPast(state, recording)
    tell({ state, problem: undefined })
  }
  while (!signal.aborted) {
    let problem = 'The server closed the live view'
    let isRefused = false
    try {
      const headers = { accept: 'text/event-stream' }
      const response = await server.call(ofModel('admin/live', model), { headers, signal })
      for await (const { event, data } of readEvents(response)) {
        if (event === 'error') problem = (JSON.parse(data) as { readonly error: string }).error
        else {
          if (state === undefined) void lookBack().catch(() => {})
          state = withActivity(state, JSON.parse(data) as EngineActivity)
          waitMs = retryMs
          tell({ state, problem: undefined })
        }
      }
    } catch (error) {
      problem = (error as Error).message
      isRefused = isRefusal(error)
    }
    if (signal.aborted) return
    tell({ state, problem })
    if (isRefused) return
    await pause(waitMs)
    waitMs = Math.min(2 * waitMs, mostRetryMs)
  }
}

const usualPause = async (ms: number): Promise<void> =>
  await new Promise((resolve) => setTimeout(resolve, ms))

/** Follows an engine's live view while the page is visible. */
export function useLive(server: Server, model: string): Live {
  const [live, tell] = useState<Live>({ state: undefined, problem: undefined })
  const isHidden = useHidden()
  useEffect(() => {
    if (isHidden) return
    const leaving = new AbortController()
    void followLive({ server, model, signal: leaving.signal, tell })
    return () => leaving.abort()
  }, [server, model, isHidden])
  return live
}

function useHidden(): boolean {
  const [isHidden, setHidden] = useState(document.hidden)
  useEffect(() => {
    const look = (): void => setHidden(document.hidden)
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [])
  return isHidden
}
