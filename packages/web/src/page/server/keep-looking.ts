/** What is asked for again and again. */
export interface Looks {
  /** Resolves with whether there will be something new to see. */
  readonly look: (signal: AbortSignal) => Promise<boolean>
  /** Milliseconds from the end of a look to the next one. */
  readonly everyMs: number
  /** Returns whether it is worth to go on. */
  readonly onFailure: (error: Error) => boolean
}

/** Looks at once, and on; returns what ends it. */
export function keepLooking({ look, everyMs, onFailure }: Looks): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  const leaving = new AbortController()
  const { signal } = leaving
  const next = async (): Promise<void> => {
    const goesOn = await look(signal).catch((error: Error) => !signal.aborted && onFailure(error))
    if (goesOn && !signal.aborted) timer = setTimeout(() => void next(), everyMs)
  }
  void next()
  return () => {
    leaving.abort()
    clearTimeout(timer)
  }
}
