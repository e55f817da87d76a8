import type { Ask } from '../apis/api.js'
import type { Target } from '../load/target.js'
import { Conversation } from './conversation.js'

/** The process that computes, where it is known. */
export interface EnginePid {
  /** Its number now; undefined when there is none. */
  readonly find: () => Promise<number | undefined>
  readonly signal: (pid: number, name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT') => void
}

/** How hard the faults are. */
export interface FaultOptions {
  /** Requests at once where a fault wants the server to be full. */
  readonly clients: number
  /** Connections at once. */
  readonly connections: number
  /** How long the canary may take after a fault, in milliseconds. */
  readonly recoveryMs: number
  /** How long it may take when the engine's process has to be started again. */
  readonly restartMs: number
  /** How long the engine's process is stopped. */
  readonly stopMs: number
  /** Words of a long prompt. */
  readonly words: number
  /** Tokens of a long answer. */
  readonly tokens: number
}

/** What came of a fault. */
export interface FaultOutcome {
  readonly verdict: 'pass' | 'fail' | 'skip'
  /** What came, or why it was skipped. */
  readonly came: string
}

/** What a fault is injected with. */
export interface FaultContext {
  readonly target: Target
  readonly options: FaultOptions
  readonly engine: EnginePid | undefined
  readonly canary: Canary
}

/** A way in which clients or processes misbehave. */
export interface Fault {
  readonly name: string
  /** What a good server does, beside serving the canary afterwards. */
  readonly expected: string
  /** Whether the engine's process is gone for a time. */
  readonly restarts?: boolean
  readonly run: (context: FaultContext) => Promise<FaultOutcome>
}

/** A long request, another one for each number. */
export function longAsk({ words, tokens }: FaultOptions, number: number): Ask {
  const text = Array.from({ length: words }, (_, place) => lexicon[(place * 7 + number) % 12])
  const prompt = `Story ${number}: ${text.join(' ')}`
  return { prompt, maxTokens: tokens, tenant: '', temperature: 0, ignoreEos: true }
}

const lexicon = 'the old house by river was full of light and small birds'.split(' ')

/** A small request whose answer is known, to see whether a server is well. */
export class Canary {
  static readonly ask: Ask = {
    prompt: 'Once upon a time there was a',
    maxTokens: 8,
    tenant: '',
    temperature: 0,
    ignoreEos: true,
  }
  #expected: string | undefined

  constructor(private readonly target: Target) {}

  /**
   * Asks until it is answered or the time is over; undefined for a good answer, otherwise what is
   * wrong. The first answer is what all later ones must be.
   */
  async problem(withinMs: number): Promise<string | undefined> {
    const end = performance.now() + withinMs
    let problem = 'no time to ask'
    for (let left = withinMs; left > 0; left = end - performance.now()) {
      const heard = await new Conversation(this.target, Canary.ask, left).done
      const isGood = heard.error === undefined && heard.ended && heard.text !== ''
      if (isGood && heard.text === (this.#expected ??= heard.text)) return undefined
      problem = isGood
        ? `another answer: ${JSON.stringify(heard.text)}`
        : (heard.error ?? heard.broken ?? 'the stream broke off').slice(0, 120)
      // A server that comes back is asked again, one that answers wrongly is not.
      if (isGood) return problem
      await new Promise((resolve) => setTimeout(resolve, Math.min(100, left)))
    }
    return problem
  }
}
