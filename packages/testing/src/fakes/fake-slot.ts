import { type TokenId, extendHash, type SlotId, type SlotStates } from '@cllm/core'
import type { FakeOperation } from './fake-calls.js'

/** What a slot of {@link FakeBackend} holds: its tokens, and as its "KV" the hash after each. */
export class FakeSlot {
  readonly tokens: TokenId[] = []
  /** Its KV cells, one per token; a copy has the same ones. */
  readonly cells: symbol[] = []
  /** Of the adapters that its tokens were computed with; 0: none. */
  salt = 0
  readonly #hashes: number[] = []

  constructor(private readonly emptyHash: number) {}

  /** The hash of the first `length` tokens. */
  hashAt(length: number): number {
    return this.#hashes[length - 1] ?? this.emptyHash
  }

  append(tokens: readonly TokenId[], cells: readonly symbol[] = []): void {
    for (const [index, token] of tokens.entries()) {
      this.cells.push(cells[index] ?? Symbol('cell'))
      this.#hashes.push(extendHash(this.hashAt(this.tokens.length), token))
      this.tokens.push(token)
    }
  }

  /** Takes tokens out; what the others were computed with stays in their hashes. */
  shift(keep: number, discard: number): void {
    this.tokens.splice(keep, discard)
    this.#hashes.splice(keep, discard)
    this.cells.splice(keep, discard)
  }

  truncate(length: number): void {
    if (length === 0) this.salt = 0
    this.tokens.length = length
    this.#hashes.length = length
    this.cells.length = length
  }
}

/** No token: what stands for adapters follows. */
const saltMark = 0xffff_ffff

/** What {@link fakeStates} need of their backend. */
interface FakeStatesHost {
  readonly id: string
  /** `truncate` keeps only a multiple of this many tokens. */
  readonly keepMultipleOf: number
  readonly contextSize: number
  readonly operations: FakeOperation[]
  slot(slot: SlotId): FakeSlot
  freeTokens(): number
  /** Runs `work` as a call that takes as long as this many bytes do. */
  during<T>(call: 'save' | 'restore', bytes: number, work: () => T): Promise<T>
  violation(problem: string): never
}

/**
 * Each is a list of 32-bit numbers, the hash of the tokens first and then, unless it is a checkpoint, the tokens; what
 * stands for adapters, if there are any, is at the end. A checkpoint that is restored behind other tokens is a
 * violation.
 */
export function fakeStates(host: FakeStatesHost): SlotStates {
  return {
    cutsAnywhere: host.keepMultipleOf === 1,
    checkpointNeedsPrefix: true,
    key: async () => `fake ${host.id}`,
    canCut(slot, length) {
      const held = host.slot(slot).tokens.length
      return length === held || (length < held && length % host.keepMultipleOf === 0)
    },
    async save(
      slot,
      { partial = false, allocate = (bytes: number) => new Uint8Array(bytes) } = {},
    ) {
      const held = host.slot(slot)
      const { tokens, salt } = held
      const more = salt === 0 ? [] : [saltMark, salt]
      const hash = held.hashAt(tokens.length)
      const numbers = Uint32Array.from([hash, ...(partial ? [] : tokens), ...more])
      host.operations.push({ type: 'save', slot, partial })
      const state = allocate(numbers.byteLength)?.subarray(0, numbers.byteLength)
      return await host.during('save', numbers.byteLength, () => {
        state?.set(new Uint8Array(numbers.buffer))
        return state
      })
    },
    async restore(slot, state, { tokens: count, partial = false }) {
      const target = host.slot(slot)
      host.operations.push({ type: 'restore', slot, length: count, partial })
      return await host.during('restore', state.byteLength, () => {
        const numbers = new Uint32Array(state.slice().buffer, 0, Math.floor(state.byteLength / 4))
        const [hash, ...rest] = numbers
        const isSalted = rest.at(-2) === saltMark
        const tokens = isSalted ? rest.slice(0, -2) : rest
        const salt = isSalted ? (rest.at(-1) ?? 0) : 0
        if (partial) {
          const isOther = target.salt !== salt || target.hashAt(count) !== hash
          if (target.tokens.length < count || isOther) {
            return host.violation(`restore: slot ${slot} does not hold the checkpoint's tokens`)
          }
          target.truncate(count)
          return true
        }
        target.truncate(0)
        if (tokens.length !== count || count > host.contextSize) return false
        if (count > host.freeTokens()) return false
        target.append(tokens)
        target.salt = salt
        return target.hashAt(count) === hash
      })
    },
  }
}
