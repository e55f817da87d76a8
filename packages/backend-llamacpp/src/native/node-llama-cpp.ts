import { createRequire } from 'node:module'
import process from 'node:process'

/**
 * node-llama-cpp loads `proper-lockfile`, and this `signal-exit` 3, which listens for every signal
 * that ends a process and ends it itself where it finds no other listener. So a program whose own
 * `process.once('SIGTERM', …)` has just begun an orderly end dies in the middle of it. Its locks
 * protect builds of llama.cpp, which never happen here: it is loaded now, before node-llama-cpp, and
 * what it added is taken away. Loading a CommonJS module is synchronous, so nothing else can have
 * added a listener meanwhile, and one that was there before stays.
 */
function loadWithoutListeners(name: string, of: string): void {
  const before = signalListeners()
  try {
    createRequire(import.meta.resolve(of))(name)
  } catch {
    // A version of node-llama-cpp that does without it.
  }
  for (const [signal, listeners] of signalListeners()) {
    const earlier = before.get(signal) ?? []
    for (const listener of listeners) if (!earlier.includes(listener)) process.off(signal, listener)
  }
}

function signalListeners() {
  const signals = process.eventNames().filter((name) => String(name).startsWith('SIG'))
  return new Map((signals as NodeJS.Signals[]).map((name) => [name, process.listeners(name)]))
}

loadWithoutListeners('proper-lockfile', 'node-llama-cpp')

/** node-llama-cpp as this project loads it: without listeners for signals. */
export {
  getLlama,
  GgufInsights,
  Llama,
  LlamaLogLevel,
  type LlamaModel,
  readGgufFileInfo,
  resolveModelFile,
} from 'node-llama-cpp'
