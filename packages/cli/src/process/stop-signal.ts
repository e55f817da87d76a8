/** Exit codes after a signal, as in shells: 128 plus the signal's number. */
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

/** Windows has these as well: Ctrl-Break, and a console that is closed or a user who logs off. */
const exitCodesOfWindows = { ...exitCodes, SIGHUP: 129, SIGBREAK: 149 } as const

/** The signals that end a command; elsewhere SIGHUP keeps its meaning, which `nohup` relies on. */
const endingSignals = (platform: NodeJS.Platform) =>
  Object.entries(platform === 'win32' ? exitCodesOfWindows : exitCodes)

/**
 * Signals within this many milliseconds of the first are the same one under npm and pnpm: Ctrl-C
 * reaches the whole process group, and both also forward their signal to the command that they run.
 */
const passedOnMs = 500

let interruptsIgnored = 0

/** Leaves Ctrl-C to another program in this terminal, until the returned function is called. */
export function ignoreInterrupts(): () => void {
  interruptsIgnored++
  return () => void interruptsIgnored--
}

/**
 * Listens for SIGINT and SIGTERM, and for their counterparts on Windows; no other file does. The first one aborts the
 * returned signal, so that the command can finish cleanly. The next one ends the process at once, with the exit code of
 * that signal. If a parent started this process over IPC, its end counts as the first one.
 *
 * The listeners stay: libraries such as `signal-exit` end a process in which nothing else listens.
 */
export function stopSignal(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform = process.platform,
): AbortSignal {
  const controller = new AbortController()
  const sameMs = env['npm_lifecycle_event'] === undefined ? 0 : passedOnMs
  let askedAt: number | undefined
  for (const [name, exitCode] of endingSignals(platform)) {
    process.on(name, () => {
      if (name === 'SIGINT' && interruptsIgnored > 0) return
      if (askedAt !== undefined && performance.now() - askedAt >= sameMs) process.exit(exitCode)
      askedAt ??= performance.now()
      controller.abort(name)
    })
  }
  if (process.connected) {
    process.once('disconnect', () => controller.abort('disconnect'))
    process.channel?.unref()
  } else if (process.send !== undefined) controller.abort('disconnect')
  return controller.signal
}

/**
 * Ignores SIGINT and SIGTERM, for a process that its parent ends: Ctrl-C reaches the whole process
 * group.
 */
export function ignoreStopSignals(): void {
  for (const [name] of endingSignals(process.platform)) process.on(name, () => {})
}

/** The result of `work`; undefined if it fails once the signal is aborted, which is no failure. */
export async function unlessStopped<T>(signal: AbortSignal, work: Promise<T>) {
  try {
    return await work
  } catch (error) {
    if (signal.aborted) return undefined
    throw error
  }
}

/** Resolves to undefined when the signal is aborted: in a race with reasons for an end, that is none. */
export async function stopped(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}

const kills = new Set<() => void>()

/** One listener that calls them all: Node warns of more than ten. */
const killAll = (): void => {
  for (const kill of kills) kill()
}

/**
 * Calls `kill` when this process ends, to end a child process: a child that hangs would not notice.
 *
 * @returns a function to call when the child has ended
 */
export function killAtExit(kill: () => void): () => void {
  if (kills.size === 0) process.on('exit', killAll)
  kills.add(kill)
  return () => {
    kills.delete(kill)
    if (kills.size === 0) process.off('exit', killAll)
  }
}
