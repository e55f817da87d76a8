import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/clock.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type {
  PausedProgram,
  ProgramReport,
  ProgramsView,
} from '../../contracts/scheduling/programs.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import * as tokens from '../../tokens.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import type { Slot } from '../engine-parts.js'
import { blockSize } from '../kv/block-chain.js'
import type { Sequence } from '../requests/sequence.js'
import { PauseModel } from './pause-model.js'
import { Program, type Served } from './program.js'

/** The `Programs` of an engine. */
export const PROGRAMS = tokens.token<Programs>('Programs')

/** At most this many programs are remembered, and as many requests that one may go on with. */
const remembered = 1000

/** A request with which a program may begin: another prompt begins with its prompt and first token. */
interface Beginning extends Served {
  readonly id: string
  readonly tenant: string
  readonly arrival: number
  readonly endedAt: number
  /** Its prompt behind the whole blocks by whose hash it is found, and the first token of its answer. */
  readonly rest: readonly TokenId[]
  program: Program | undefined
}

/**
 * Which program a request belongs to: that of its session, or that of the request with whose prompt and
 * answer it begins. Knows which idle slots programs will want again, and forgets those that are gone.
 */
@injectable()
export class Programs implements EngineObserver, ProgramsView {
  readonly #pauses = new PauseModel()
  /** The one that went on last at the end. */
  readonly #programs = new Map<string, Program>()
  /** By the hash of the last whole block of the prompt; the latest at the end. */
  readonly #beginnings = new Map<number, Beginning>()
  /** The idle slot of each program, that of its last request. */
  readonly slots = new Map<Program, Slot>()

  constructor(
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.CLOCK) private readonly clock: Clock,
  ) {}

  onQueued(sequence: Sequence, now: number): void {
    const { request, tenant, chain, tokens: prompt } = sequence
    if (request.session !== undefined) {
      this.#join(sequence, JSON.stringify([tenant, request.session]), undefined, now)
      return
    }
    if (!request.cache || this.#beginnings.size === 0) return
    const { hashes } = chain
    for (let block = hashes.length; block > 0; block--) {
      const found = this.#beginnings.get(hashes[block - 1]!)
      if (found === undefined || found.tenant !== tenant) continue
      const from = block * blockSize
      if (found.rest.some((token, index) => prompt[from + index] !== token)) continue
      this.#join(sequence, found.program?.id ?? found.id, found, now)
      return
    }
  }

  onFinished(sequence: Sequence, now: number): void {
    const { program, chain, tokens: all, promptTokens, cachedTokens, generatedTokens } = sequence
    program?.end(sequence, now)
    // That of a session is found by it.
    if (!sequence.isShared || generatedTokens === 0 || sequence.session !== undefined) return
    const blocks = Math.floor(promptTokens / blockSize)
    const hash = chain.hashes[blocks - 1]
    if (hash === undefined) return
    const { id, tenant, arrival } = sequence
    const rest = all.slice(blocks * blockSize, promptTokens + 1)
    const served = { promptTokens, cachedTokens, generatedTokens }
    this.#beginnings.delete(hash)
    this.#beginnings.set(hash, { id, tenant, arrival, endedAt: now, rest, program, ...served })
    const [oldest] = this.#beginnings.keys()
    if (this.#beginnings.size > remembered) this.#beginnings.delete(oldest!)
  }

  /** An idle slot keeps what a request of the program computed. */
  onKept(program: Program, slot: Slot): void {
    this.slots.set(program, slot)
    program.keptTokens = slot.length
  }

  /** A slot loses what it keeps. */
  onLost(slot: Slot): void {
    for (const [program, kept] of this.slots) {
      if (kept !== slot) continue
      this.slots.delete(program)
      program.keptTokens = 0
    }
  }

  /** How likely what an idle slot of a program keeps is wanted within a second. */
  chances(): ReadonlyMap<Slot, number> {
    const now = this.clock.now()
    const chances = new Map<Slot, number>()
    for (const [program, slot] of this.slots) {
      const chance = program.open > 0 ? 1 : Math.min(1, 1000 * program.returnRate(now))
      chances.set(slot, chance)
    }
    return chances
  }

  paused(now: number): readonly PausedProgram[] {
    const list: PausedProgram[] = []
    for (const [program, { length }] of this.slots) {
      if (!program.isPausing(now)) continue
      const lossMs = this.costs.steps.tokensMs(length)
      list.push({ program, lossMs, returnRate: program.returnRate(now) })
    }
    return list
  }

  /** The programs that are not gone, the one that went on last first. */
  report(): ProgramReport[] {
    const now = this.clock.now()
    const list = [...this.#programs.values()].filter((one) => one.open > 0 || one.isPausing(now))
    return list.reverse().map((program) => program.report(now))
  }

  #join(sequence: Sequence, key: string, beginning: Beginning | undefined, now: number): void {
    let program = beginning?.program ?? this.#programs.get(key)
    if (program === undefined) {
      const { tenant, arrival } = beginning ?? sequence
      program = new Program(sequence.session ?? key, tenant, arrival, this.#pauses)
      if (beginning !== undefined) {
        program.calls = program.open = 1
        program.end(beginning, beginning.endedAt)
        beginning.program = program
      }
    }
    program.begin(now)
    sequence.program = program
    this.#programs.delete(key)
    this.#programs.set(key, program)
    for (const [oldest, { open }] of this.#programs) {
      if (this.#programs.size <= remembered) break
      if (open === 0) this.#programs.delete(oldest)
    }
  }
}
