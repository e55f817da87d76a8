import type { EngineActivity } from '@cllm/core'
import { useEffect, useState } from 'preact/hooks'
import { readEvents } from '../server/read-events.js'
import type { Server } from '../server/server.js'
import { type LiveState, withActivity } from './live-state.js'

/** Milliseconds after which a stream that broke is asked for again. */
const retryMs = 2000

/** The live view of an engine, and why there is none. */
export interface Live {
  readonly state: LiveState | undefined
  readonly problem: string | undefined
}

/** Follows an engine while the page can be seen. */
export function useLive(server: Server, model: string): Live {
  const [live, setLive] = useState<Live>({ state: undefined, problem: undefined })
  const isHidden = useHidden()
  useEffect(() => {
    if (isHidden) return
    const leaving = new AbortController()
    void follow(server, model, leaving.signal, setLive)
    return () => leaving.abort()
  }, [server, model, isHidden])
  return live
}

async function follow(
  server: Server,
  model: string,
  signal: AbortSignal,
  tell: (live: Live) => void,
): Promise<void> {
  const query = model === '' ? '' : `?model=${encodeURIComponent(model)}`
  let state: LiveState | undefined
  while (!signal.aborted) {
    let problem = 'The server closed the live view'
    try {
      const headers = { accept: 'text/event-stream' }
      const response = await server.call(`admin/live${query}`, { headers, signal })
      for await (const { event, data } of readEvents(response)) {
        if (event === 'error') problem = (JSON.parse(data) as { readonly error: string }).error
        else {
          state = withActivity(state, JSON.parse(data) as EngineActivity)
          tell({ state, problem: undefined })
        }
      }
    } catch (error) {
      problem = (error as Error).message
    }
    if (signal.aborted) return
    tell({ state, problem })
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
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
