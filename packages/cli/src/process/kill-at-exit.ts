const kills = new Set<() => void>()

/** One listener for all of them: Node warns of more than ten. */
const killAll = (): void => {
  for (const kill of kills) kill()
}

/**
 * Ends a child process when this one ends, as it would not while it hangs.
 *
 * @returns a function for when it has ended
 */
export function killAtExit(kill: () => void): () => void {
  if (kills.size === 0) process.on('exit', killAll)
  kills.add(kill)
  return () => {
    kills.delete(kill)
    if (kills.size === 0) process.off('exit', killAll)
  }
}
