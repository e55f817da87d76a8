import { Worker } from 'node:worker_threads'
import { CllmError, messageOf, type SerializedError } from '@cllm/core'
import type { GbnfRules } from './gbnf/gbnf-rules.js'
import type { GrammarTokens } from './match/token-grammar.js'
import { refused } from './refuse.js'

/** What the thread is started with; its messages are constraints as JSON. */
export interface ThreadSetup extends Pick<GrammarTokens, 'size' | 'endOfGeneration' | 'trie'> {
  /** Counts the answers to its questions. */
  readonly answers: Int32Array
}

/** Asks for the tokens of a name in the grammar. */
export interface TokenQuestion {
  readonly name: string
}

/** A compiled constraint. */
export interface CompiledRules {
  readonly rules: GbnfRules
  /** The mask of an empty text. */
  readonly first: Uint32Array
}

/** How the job ended. */
export type CompileReply = CompiledRules | { readonly problem: SerializedError }

/** The characters for which a thread has room at least. */
const leastRoom = 200_000
/**
 * V8 ends a thread at its limit, but the whole process where one call goes far beyond it, as it may where the constraint
 * is read: so there is room for that.
 */
const limitsFor = (characters: number) => ({
  maxOldGenerationSizeMb: 80 + 20e-6 * characters,
  maxYoungGenerationSizeMb: 8,
  stackSizeMb: 2,
})

interface Started {
  readonly worker: Worker
  /** The characters that it has room for. */
  readonly room: number
  /** Ends the present job. */
  settle: (reply: CompileReply) => void
}

/**
 * Compiles constraints in a thread of its own, one at a time: if it dies, one request fails. It is started with a job,
 * and leaves no memory behind when it is ended.
 */
export class CompileThread {
  #started: Started | undefined

  constructor(private readonly tokens: GrammarTokens) {}

  /**
   * @param constraint - the constraint as JSON
   * @param signal - ends the thread; the job fails with its reason
   * @throws CllmError `invalid_constraint`, and `backend_failed` if the thread cannot be started
   */
  async compile(constraint: string, signal?: AbortSignal): Promise<CompiledRules> {
    signal?.throwIfAborted()
    if (constraint.length > (this.#started?.room ?? 0)) void this.end()
    const started = (this.#started ??= this.#start(Math.max(constraint.length, leastRoom)))
    const { worker } = started
    const leave = (): void => void worker.terminate()
    signal?.addEventListener('abort', leave)
    const reply = await new Promise<CompileReply>((resolve) => {
      started.settle = resolve
      worker.postMessage(constraint, [])
    })
    signal?.removeEventListener('abort', leave)
    if (signal?.aborted === true) await this.end()
    signal?.throwIfAborted()
    if ('problem' in reply) throw CllmError.deserialize(reply.problem)
    return reply
  }

  /** Ends the thread, if there is one, and its job. */
  async end(): Promise<void> {
    const started = this.#started
    this.#started = undefined
    await started?.worker.terminate()
  }

  #start(room: number): Started {
    const { size, endOfGeneration, trie } = this.tokens
    const answers = new Int32Array(new SharedArrayBuffer(4))
    const workerData: ThreadSetup = { size, endOfGeneration, trie, answers }
    const started: Started = { worker: newWorker(workerData, room), room, settle: () => {} }
    const { worker } = started
    let problem = died('its thread has ended')
    worker.on('message', (message: CompileReply | TokenQuestion) => {
      if (!('name' in message)) return started.settle(message)
      try {
        worker.postMessage(this.tokens.encode(message.name, true), [])
        Atomics.add(answers, 0, 1)
        Atomics.notify(answers, 0)
      } catch (error) {
        problem = CllmError.from(error).serialize()
        void worker.terminate()
      }
    })
    worker.once('error', (error: NodeJS.ErrnoException) => {
      const isTooLarge = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      problem = isTooLarge ? died(error.message) : unstarted(error).serialize()
      // The next job needs another one, though this one has not ended yet.
      if (this.#started === started) this.#started = undefined
    })
    // also the end of one with an error
    worker.once('exit', () => {
      if (this.#started === started) this.#started = undefined
      started.settle({ problem })
    })
    return started
  }
}

function newWorker(workerData: ThreadSetup, room: number): Worker {
  const file = new URL('./compile-worker.js', import.meta.url)
  try {
    return new Worker(file, { workerData, resourceLimits: limitsFor(room) })
  } catch (error) {
    throw unstarted(error)
  }
}

const died = (reason: string): SerializedError =>
  refused('The constraint cannot be used', `compiling it failed: ${reason}`).serialize()

/** The error where the process has too little memory, or too many threads or open files, for one more. */
const unstarted = (cause: unknown): CllmError => {
  const why = `no thread could be started: ${messageOf(cause)}`
  return new CllmError('backend_failed', `The constraint was not compiled: ${why}`, { cause })
}
