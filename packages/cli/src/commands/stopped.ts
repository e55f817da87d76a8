/** Resolves when the signal is aborted, to nothing: beside reasons to end, it is none. */
export async function stopped(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
