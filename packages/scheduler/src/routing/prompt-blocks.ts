import { codesOf, GrowingHash } from '@cllm/core'

/** Tokens, or characters of a text, that make a block. */
const tokenBlock = 64
const textBlock = 256

/** The blocks of a prompt, for routers. */
export interface PromptBlocks {
  /** A hash for each whole block and all that comes before it. */
  readonly blocks: readonly number[]
  readonly blockTokens: number
}

/**
 * The blocks of a prompt in tokens.
 *
 * @param scope what else must be equal for two prompts to share anything, such as the tenant
 */
export function blocksOfTokens(tokens: readonly number[], scope = ''): PromptBlocks {
  return { blocks: hashesOf(tokens, tokenBlock, scope), blockTokens: tokenBlock }
}

/**
 * The blocks of a prompt in text, for a front without a tokenizer.
 *
 * @param tokensPerCharacter as measured on earlier prompts
 * @param scope as in {@link blocksOfTokens}
 */
export function blocksOfText(text: string, tokensPerCharacter: number, scope = ''): PromptBlocks {
  const blocks = hashesOf(codesOf(text), textBlock, scope)
  return { blocks, blockTokens: textBlock * tokensPerCharacter }
}

function hashesOf(values: ArrayLike<number>, block: number, scope: string): number[] {
  const hash = new GrowingHash()
  hash.add(codesOf(scope))
  const hashes: number[] = []
  for (let end = block; end <= values.length; end += block) {
    hashes.push(hash.add(values, end - block, end))
  }
  return hashes
}
