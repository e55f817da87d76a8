import { Worker } from 'node:worker_threads'
import { CllmError, messageOf, type SerializedError, type TokenId } from '@cllm/core'
import type { GbnfRules } from './gbnf/gbnf-rules.js'
import type { GrammarTokens } from './match/token-grammar.js'
import { refused } from './refuse.js'

/** What the thread is started with. */
export interface CompileJob extends Pick<GrammarTokens, 'size' | 'endOfGeneration' | 'trie'> {
  /** The constraint as JSON. */
  readonly constraint: string
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

/**
 * V8 ends a thread at its limit, but the whole process where one call goes far beyond it, as it may where the constraint
 * is read: so there is room for that.
 */
const limitsFor = ({ length }: string) => ({
  maxOldGenerationSizeMb: 80 + 20e-6 * length,
  maxYoungGenerationSizeMb: 8,
  stackSizeMb: 2,
})

/**
 * Compiles a constraint in a thread of its own. It ends with the job: it leaves no memory behind, and if it dies, one
 * request fails.
 * @param encode - returns the tokens of a name in the grammar
 * @param signal - ends the thread; the job fails with its reason
 * @throws CllmError `invalid_constraint`, and `backend_failed` if the thread cannot be started
 */
export async function compileInThread(
  job: Omit<CompileJob, 'answers'>,
  encode: (name: string) => readonly TokenId[],
  signal: AbortSignal,
): Promise<CompiledRules> {
  const answers = new Int32Array(new SharedArrayBuffer(4))
  const workerData: CompileJob = { ...job, answers }
  const worker = started(workerData)
  const end = (): void => void worker.terminate()
  signal.addEventListener('abort', end)
  const died = (reason: string) => ({
    problem: refused('The constraint cannot be used', `compiling it failed: ${reason}`),
  })
  const reply = await new Promise<CompileReply>((resolve) => {
    worker.on('message', (message: CompileReply | TokenQuestion) => {
      if (!('name' in message)) return resolve(message)
      try {
        worker.postMessage(encode(message.name), [])
        Atomics.add(answers, 0, 1)
        Atomics.notify(answers, 0)
      } catch (error) {
        resolve({ problem: CllmError.from(error).serialize() })
      }
    })
    worker.once('error', (error: NodeJS.ErrnoException) => {
      const isTooLarge = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      resolve(isTooLarge ? died(error.message) : { problem: unstarted(error) })
    })
    worker.once('exit', () => resolve(died('its thread has ended')))
  })
  signal.removeEventListener('abort', end)
  await worker.terminate()
  signal.throwIfAborted()
  if ('problem' in reply) throw CllmError.deserialize(reply.problem)
  return reply
}

function started(workerData: CompileJob): Worker {
  const resourceLimits = limitsFor(workerData.constraint)
  try {
    return new Worker(new URL('./compile-worker.js', import.meta.url), {
      workerData,
      resourceLimits,
    })
  } catch (error) {
    throw unstarted(error)
  }
}

/** The error where the process has too little memory, or too many threads or open files, for one more. */
const unstarted = (cause: unknown): CllmError => {
  const why = `no thread could be started: ${messageOf(cause)}`
  return new CllmError('backend_failed', `The constraint was not compiled: ${why}`, { cause })
}
