import {
  type BatchItem,
  CllmError,
  type Clock,
  type EncodedMedia,
  type EncodeJob,
  type MediaEncoder,
  type MediaFile,
  mixBits,
  nextNumber,
  pause,
  type ProposerDefinition,
  type Sampler,
  type StepOutput,
  type TokenId,
  type Tokenizer,
} from '@cllm/core'
import { hashOf } from '@cllm/scheduler'

/** What a simulated model says where it says what is expected. */
const expected: TokenId = 0

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

/** Token ids of prompts are 30-bit numbers. */
export const vocabularySize = 2 ** 30
/** The other token of answers. No prompt has one of them, so no answer is found as a prefix. */
const unexpected: TokenId = vocabularySize - 1

/** Tokens at a prompt's end that tell requests apart. */
export const hashedTokens = 8

/** Draws by a hash of the prompt's end and the position. */
export class SimulatedSampler implements Sampler {
  constructor(
    private readonly hash: number,
    private readonly acceptance: number,
    private readonly promptTokens: number,
    private readonly call: TokenId | undefined,
  ) {}

  draw(position: number): TokenId {
    if (this.call !== undefined && position < this.promptTokens) return this.call
    const isExpected = mixed(this.hash, position) < this.acceptance * 2 ** 32
    return isExpected ? expected : unexpected
  }

  dispose(): void {}
}

/** Tokens are texts where they stand for a call of a tool. */
export const tokenizerOf = (tools: ReadonlyMap<TokenId, string>): Tokenizer => ({
  vocabularySize,
  maxTokenBytes: 16,
  encode: () => noText(),
  decode: (tokens) => tokens.map((token) => tools.get(token) ?? '').join(''),
  createDecoder: () => ({ push: () => '', end: () => '' }),
  isEndOfGeneration: () => false,
  renderChat: () => noText(),
})

function noText(): never {
  throw new CllmError('unsupported', 'A simulated model takes prompts in tokens')
}

/** Always guesses the expected tokens: how often that is right is up to the {@link SimulatedBackend}. */
export const simulatedProposer: ProposerDefinition = {
  name: 'simulated',
  doc: 'Guesses what a simulated model is expected to say.',
  create: () => ({
    begin: () => ({
      propose: (_, most) => ({ tokens: Array.from({ length: most }, () => expected) }),
    }),
  }),
}

/** A hash of 32 bits of both. */
export const mixed = (hash: number, value: number): number =>
  mixBits(hash ^ Math.imul(value + 1, 0x9e3779b1))

/** Draws up to the first token that was not guessed. */
export function outputsOf({ outputs, drafts = 0, sampler }: BatchItem): readonly StepOutput[] {
  const drawn: StepOutput[] = []
  for (const position of outputs) {
    const token = sampler instanceof SimulatedSampler ? sampler.draw(position) : expected
    drawn.push({ position, token })
    if (drafts > 0 && token !== expected) break
  }
  return drawn
}

/** What encoding costs on a simulated machine. */
export interface SimulatedEncodes {
  /** Milliseconds of an image. */
  readonly encodeMs: number
  /** Share of the machine that steps lose while one is encoded, 0 to 1: 0 where it has a processor of its own. */
  readonly lostShare: number
}

/** Encodes on simulated time, beside the steps. The data of an image is the number of its tokens, a space and its name. */
export class SimulatedEncoder implements MediaEncoder {
  #isBusy = false

  constructor(
    private readonly clock: Clock,
    private readonly costs: SimulatedEncodes,
  ) {}

  /** How many times as long a step takes now. */
  get slowness(): number {
    return this.#isBusy ? 1 / (1 - this.costs.lostShare) : 1
  }

  async prepare({ data }: MediaFile): Promise<EncodeJob> {
    const length = Number.parseInt(data, 10)
    return { key: data, size: length, run: async () => await this.#encode(data, length) }
  }

  async #encode(key: string, length: number): Promise<EncodedMedia> {
    this.#isBusy = true
    await pause(this.clock, this.costs.encodeMs)
    this.#isBusy = false
    const vectors = new Float32Array(length)
    return { tokens: promptIds([{ key, tokens: length }]), spans: [{ start: 0, length, vectors }] }
  }
}
