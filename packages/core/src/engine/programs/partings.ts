import { inject, injectable } from 'tsyringe'
import { entryOf } from '../../defined.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type { PartingStatistics } from '../../contracts/engine/engine-statistics.js'
import type { PromptParting } from '../../contracts/engine/request-report.js'
import type { ChatMessage, TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { codesOf, GrowingHash } from '../../hash.js'
import * as tokens from '../../tokens.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import { minimumWait, sameTokens } from '../kv/block-chain.js'
import type { Sequence } from '../requests/sequence.js'
import type { Program } from './program.js'

/** The most tokens of remembered calls, of 4 bytes each. */
const mostTokens = 4_000_000
/** The number of remembered calls of a program, as it may have several conversations. */
const callsOfProgram = 4
/** The number of tokens shown on either side of a parting. */
const shownTokens = 24

/** A call whose prompt and answer the next one of its conversation should begin with. */
interface PastCall {
  readonly id: string
  readonly tokens: Int32Array
  /** The hash of its messages, without system messages, by which it is found. */
  readonly key: number | undefined
  readonly program: Program | undefined
}

/**
 * Finds where a prompt begins to differ from the call before it and its answer. The call before is one of the same
 * conversation (the prompt has all its messages, apart from system messages), or else of the same program. From there on
 * everything is computed again, though little of it may be new.
 */
@injectable()
export class Partings implements EngineObserver {
  /** The remembered calls, the latest last. */
  readonly #calls = new Set<PastCall>()
  readonly #byMessages = new Map<number, PastCall>()
  readonly #byProgram = new Map<Program, PastCall[]>()
  /** The hash of all messages of each request in flight. */
  readonly #keys = new WeakMap<Sequence, number>()
  #tokens = 0
  /** Counts of partings and of tokens computed again, by how the call before was found. */
  readonly counts: Record<PromptParting['by'], PartingStatistics> = {
    messages: { prompts: 0, tokens: 0 },
    session: { prompts: 0, tokens: 0 },
    prompt: { prompts: 0, tokens: 0 },
  }

  constructor(
    @inject(tokens.TOKENIZER) private readonly tokenizer: Tokenizer,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
  ) {}

  onQueued(sequence: Sequence): void {
    const { messages, request, program } = sequence
    sequence.messages = undefined
    if (!request.cache || request.continued !== undefined) return
    const keys = messages === undefined ? [] : keysOf(messages, sequence)
    if (keys.length > 0) this.#keys.set(sequence, keys.at(-1)!)
    const found = this.#before(sequence, keys)
    if (found === undefined) return
    const [call, token] = found
    const lost = Math.min(call.tokens.length, sequence.promptTokens) - token
    if (lost < minimumWait) return
    const hasKey = call.key !== undefined && keys.includes(call.key)
    const by = hasKey ? 'messages' : program?.id === sequence.session ? 'session' : 'prompt'
    const shared = sequence.tokens.slice(0, token)
    const is = this.#text(next(sequence, token))
    sequence.parting = {
      before: call.id,
      by,
      token,
      ...(messages && messageAt(messages, this.#text(shared), is)),
      text: this.#text(shared.slice(-shownTokens)),
      was: this.#text(next(call, token)),
      is,
      beforeTokens: call.tokens.length,
      tokens: lost,
      costMs: this.costs.steps.tokensMs(lost),
    }
  }

  /** Tokens that its slot has, from wherever, are not computed again. */
  onAdmitted(sequence: Sequence): void {
    const { parting, program, promptTokens, computedTokens, preemptions } = sequence
    if (parting === undefined || preemptions > 0) return
    const has = Math.max(parting.token, computedTokens)
    const again = Math.max(0, Math.min(parting.beforeTokens, promptTokens) - has)
    sequence.parting = { ...parting, tokens: again, costMs: this.costs.steps.tokensMs(again) }
    if (again === 0) return
    const plusThis = ({ prompts, tokens }: PartingStatistics): PartingStatistics => {
      return { prompts: prompts + 1, tokens: tokens + again }
    }
    this.counts[parting.by] = plusThis(this.counts[parting.by])
    if (program !== undefined) program.partings = plusThis(program.partings)
  }

  onFinished(sequence: Sequence): void {
    const { id, program, isShared, generatedTokens } = sequence
    const key = this.#keys.get(sequence)
    if (!isShared || generatedTokens === 0 || (key === undefined && program === undefined)) return
    // A later call can lose too few tokens of a short one to be worth reporting.
    if (sequence.tokens.length <= minimumWait) return
    // The last sampled token was never computed.
    const call = { id, tokens: new Int32Array(sequence.tokens).subarray(0, -1), key, program }
    const earlier = key === undefined ? undefined : this.#byMessages.get(key)
    if (earlier !== undefined) this.#forget(earlier)
    this.#calls.add(call)
    this.#tokens += call.tokens.length
    if (key !== undefined) this.#byMessages.set(key, call)
    if (program !== undefined) {
      const calls = entryOf(this.#byProgram, program, () => [])
      if (calls.push(call) > callsOfProgram) this.#forget(calls[0]!)
    }
    for (const oldest of this.#calls) {
      if (this.#tokens <= mostTokens) break
      this.#forget(oldest)
    }
  }

  #forget(call: PastCall): void {
    this.#calls.delete(call)
    this.#tokens -= call.tokens.length
    const { key, program } = call
    if (key !== undefined && this.#byMessages.get(key) === call) this.#byMessages.delete(key)
    const others = program && this.#byProgram.get(program)?.filter((one) => one !== call)
    if (program === undefined || others === undefined) return
    if (others.length > 0) this.#byProgram.set(program, others)
    else this.#byProgram.delete(program)
  }

  /** The call that a prompt continues, and the number of leading tokens that both share. */
  #before(sequence: Sequence, keys: readonly number[]): [PastCall, number] | undefined {
    for (let index = keys.length - 2; index >= 0; index--) {
      const call = this.#byMessages.get(keys[index]!)
      if (call !== undefined) return [call, sharedTokens(call, sequence)]
    }
    let best: [PastCall, number] | undefined
    const { program } = sequence
    for (const call of (program && this.#byProgram.get(program)) ?? []) {
      const shared = sharedTokens(call, sequence)
      // A call with another beginning belongs to another conversation.
      if (shared >= minimumWait && shared >= (best?.[1] ?? 0)) best = [call, shared]
    }
    return best
  }

  /** The text of tokens, without those that stand for images. */
  #text(list: readonly TokenId[]): string {
    const { vocabularySize } = this.tokenizer
    return this.tokenizer.decode(list.filter((token) => token >= 0 && token < vocabularySize))
  }
}

const sharedTokens = (call: PastCall, { tokens, promptTokens }: Sequence): number =>
  sameTokens(call.tokens, tokens, promptTokens)

const next = ({ tokens: all }: { readonly tokens: ArrayLike<TokenId> }, from: number): TokenId[] =>
  Array.prototype.slice.call(all, from, from + shownTokens)

/** For each message that is no system message: the hash of all such messages up to it. */
function keysOf(messages: readonly ChatMessage[], { tenant, chain }: Sequence): number[] {
  const hash = new GrowingHash()
  hash.add(codesOf(JSON.stringify([tenant, chain.scope])))
  const keys: number[] = []
  for (const { role, content, tool_calls: calls } of messages) {
    if (role === 'system' || role === 'developer') continue
    hash.add(codesOf(`${role}\n${calls === undefined ? '' : JSON.stringify(calls)}\n`))
    keys.push(hash.add(codesOf(content)))
  }
  return keys
}

/** Shorter contents are not looked for, as they may appear anywhere. */
const tellingLetters = 16

/**
 * The message in or before whose content the common text ends; empty: behind all messages. Templates trim contents, and
 * may leave some out.
 */
function messageAt(
  messages: readonly ChatMessage[],
  text: string,
  following: string,
): Pick<PromptParting, 'message' | 'role' | 'isInContent'> {
  const contents = messages.map(({ content }) => content.trim())
  let from = 0
  // The last message that the text has behind `from`. As `from` only rises, each message is searched once.
  let last = contents.length - 1
  const isThere = (content: string): boolean =>
    content.length >= tellingLetters && text.includes(content, from)
  for (const [message, content] of contents.entries()) {
    if (content === '') continue
    const at = text.indexOf(content, from)
    if (at !== -1) {
      from = at + content.length
      continue
    }
    while (last > message && !isThere(contents[last]!)) last--
    // A later message is in the text: the template has left this one out.
    if (last > message) continue
    const head = content.slice(0, tellingLetters)
    const begun = text.indexOf(head, from)
    const isInContent =
      (begun !== -1 && content.startsWith(text.slice(begun))) ||
      Array.from(head, (_, index) => index + 1).some((length) =>
        text.endsWith(content.slice(0, length)),
      ) ||
      following.trimStart().startsWith(head.slice(0, 8))
    return { message, role: messages[message]!.role, isInContent }
  }
  return {}
}
