import { useEffect, useState } from 'preact/hooks'
import type { Server } from '../server/server.js'
import { followLive, type Live } from './follow-live.js'

/** Follows an engine while the page can be seen. */
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
