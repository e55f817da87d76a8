import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/services.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type { ProgramReport } from '../../contracts/engine/engine-statistics.js'
import type { Usage } from '../../contracts/engine/generate-events.js'
import type { PausedProgram, ProgramsView } from '../../contracts/scheduling/scheduler-policy.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { setLatest } from '../../defined.js'
import * as tokens from '../../tokens.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import { KV_CACHE_MANAGER, type KVCacheManager } from '../engine-parts.js'
import { blockSize } from '../kv/block-chain.js'
import type { Sequence } from '../requests/sequence.js'
import { Pauses, Program } from './program.js'

/** The `Programs` of an engine. */
export const PROGRAMS = tokens.token<Programs>('Programs')

/** The most programs that are remembered, and the most requests that a program may continue. */
const remembered = 1000

/** A request with which a program may begin: a later prompt that starts with its prompt and first token continues it. */
interface Beginning extends Usage, Pick<Sequence, 'id' | 'tenant' | 'arrival'> {
  readonly endedAt: number
  /** The prompt tokens behind the last whole block, whose hash is the key, and the first token of its answer. */
  readonly rest: readonly TokenId[]
  program: Program | undefined
}

/**
 * Finds the program of each request: by its session, by the request with whose prompt and answer it begins, which a session
 * that is new joins, too, or by the tool that its answer calls. Forgets programs that have ended.
 */
@injectable()
export class Programs implements EngineObserver, ProgramsView {
  readonly #pauses = new Pauses()
  /** The programs by key, the most recent last. */
  readonly #programs = new Map<string, Program>()
  /** By the hash of the prompt's last whole block; the latest last. */
  readonly #beginnings = new Map<number, Beginning>()

  constructor(
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.TOKENIZER) private readonly tokenizer: Tokenizer,
    @inject(KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
  ) {}

  onQueued(sequence: Sequence, now: number): void {
    const { request, tenant, chain, tokens: prompt } = sequence
    const { session, cache, retainMs } = request
    const { hashes } = chain
    // The first response of a stored chain has no session: the second one names it.
    const isKnown = session !== undefined && this.#programs.has(keyOf(tenant, session, true))
    for (let block = isKnown || !cache ? 0 : hashes.length; block > 0; block--) {
      const found = this.#beginnings.get(hashes[block - 1]!)
      if (found === undefined || found.tenant !== tenant) continue
      if (session !== undefined && (found.program?.calls ?? 1) > 1) continue
      const from = block * blockSize
      if (found.rest.some((token, index) => prompt[from + index] !== token)) continue
      this.#join(sequence, session ?? found.id, found, now)
      return
    }
    // The client's hint says that more requests will come.
    const named = session ?? (cache && retainMs !== undefined ? sequence.id : undefined)
    if (named !== undefined) this.#join(sequence, named, undefined, now)
  }

  onFinished(sequence: Sequence, now: number): void {
    const tool = this.#calledTool(sequence)
    // A tool's result comes with another request: this one is a program from its first call.
    if (tool !== undefined && sequence.program === undefined) {
      const slot = this.kv.slots[sequence.keptIn!]!
      slot.program = this.#join(sequence, sequence.id, undefined, now)
      slot.program.slot = slot
    }
    const { program, chain, tokens: all, promptTokens, cachedTokens, generatedTokens } = sequence
    const usage = { promptTokens: sequence.promptHeld, cachedTokens, generatedTokens }
    const served = sequence.firstComputed === undefined ? {} : usage
    program?.end(served, now, tool, sequence.request.retainMs)
    // Programs with a session are found by it.
    if (!sequence.isShared || generatedTokens === 0 || sequence.session !== undefined) return
    const blocks = Math.floor(promptTokens / blockSize)
    const hash = chain.hashes[blocks - 1]
    if (hash === undefined) return
    const { id, tenant, arrival } = sequence
    const rest = all.slice(blocks * blockSize, promptTokens + 1)
    const beginning = { id, tenant, arrival, endedAt: now, rest, program, ...usage }
    setLatest(this.#beginnings, hash, beginning, remembered)
  }

  paused(now: number): readonly PausedProgram[] {
    return this.kv.slots.flatMap((slot) => {
      const { program } = slot
      if (program?.slot !== slot || slot.length === 0 || !program.isPausing(now)) return []
      const lossMs = this.kv.lossMs?.(slot) ?? this.costs.steps.tokensMs(slot.length)
      return { program, lossMs, returnRate: program.expect(now).rate }
    })
  }

  /** The programs that have not ended, the most recent first. */
  report(): ProgramReport[] {
    const now = this.clock.now()
    const list = [...this.#programs.values()].filter((one) => one.open > 0 || one.isPausing(now))
    return list.reverse().map((program) => program.report(now))
  }

  /** The last tool call in an answer, of any format, that names a known tool. */
  #calledTool(sequence: Sequence): string | undefined {
    const { program, tenant, tokens: all, promptTokens, keptIn } = sequence
    // A pause only begins when the last open request ends, and a program with a slot that keeps its answer.
    const cannotPause = program === undefined ? keptIn === undefined : program.open !== 1
    if (cannotPause || this.#pauses.tools.size === 0) return undefined
    const text = this.tokenizer.decode(all.slice(promptTokens))
    const calls = [...text.matchAll(callForms)]
    return calls.findLast(([, name = '']) => this.#pauses.knows(tenant, name))?.[1]
  }

  #join(sequence: Sequence, id: string, beginning: Beginning | undefined, now: number): Program {
    const { tenant, session } = sequence
    const key = keyOf(tenant, id, session !== undefined)
    let program = beginning?.program ?? this.#programs.get(key)
    if (program === undefined) {
      const { arrival } = beginning ?? sequence
      program = new Program(id, tenant, arrival, this.#pauses, key)
      if (beginning !== undefined) {
        program.calls = program.open = 1
        program.end(beginning, beginning.endedAt)
        beginning.program = program
      }
    }
    const last = sequence.messages?.findLast(({ role }) => role === 'assistant')
    const tool = last?.tool_calls?.at(-1)?.function.name
    program.begin(now, tool !== undefined && tool.length <= longestName ? tool : undefined)
    sequence.program = program
    this.#programs.delete(program.key)
    // A session takes over the program of its first request.
    if (session !== undefined) [program.key, program.id] = [key, id]
    this.#programs.set(program.key, program)
    for (const [oldest, { open }] of this.#programs) {
      if (this.#programs.size <= remembered) break
      if (open === 0) this.#programs.delete(oldest)
    }
    return program
  }
}

/** Different tenants may use the same ids, and sessions those of requests. */
const keyOf = (tenant: string, id: string, isSession: boolean): string =>
  JSON.stringify([tenant, isSession, id])

/** Longer names of tools are not remembered, as clients can send anything. */
const longestName = 128

/**
 * The forms in which models name the tool that they call: in JSON, as a tag or function, behind a mark; at the beginning
 * of a text or list, where prose has words, too, only before arguments.
 */
const callForms =
  /(?:name"?\s*[:=]\s*"|functions?[=.]|TOOL_CALLS\]|tool_call>\s*|sep\S?>|(?:^\s*|\[)(?=[\w.-]+(?:\(|\s*\{)))([\w.-]+)/g
