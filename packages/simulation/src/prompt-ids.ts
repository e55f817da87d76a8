import { nextNumber, type TokenId } from '@cllm/core'
import { hashOf } from '@cllm/scheduler'

/** What a simulated model says where it says what is expected. */
export const expected: TokenId = 0

/** A part of a prompt. The same key gives the same tokens in every prompt; an empty one what a simulated model says. */
export interface PromptPart {
  readonly key: string
  readonly tokens: number
  /**
   * Each token of it stands for a call of this tool, which the simulation must know. A simulated model whose
   * prompt ends with one says it first.
   */
  readonly call?: string
}

/**
 * Token ids that stand for a prompt: equal where two prompts have the same part at the same place, and
 * as good as never equal elsewhere.
 */
export function promptIds(parts: readonly PromptPart[]): number[] {
  const ids: number[] = []
  for (const { key, tokens, call } of parts) {
    if (key === '') {
      const said = call === undefined ? expected : callToken(call)
      for (let index = 0; index < tokens; index++) ids.push(said)
      continue
    }
    let state = hashOf(key)
    for (let index = 0; index < tokens; index++) {
      state = nextNumber(state)
      // 0 is what a simulated model says: no other part has it.
      ids.push(1 + (state >>> 3))
    }
  }
  return ids
}

/** Behind all tokens of prompts. */
const firstCall = 2 ** 29 + 1

/** The token that stands for a call of this tool. */
export const callToken = (tool: string): TokenId => firstCall + (hashOf(tool) >>> 4)
