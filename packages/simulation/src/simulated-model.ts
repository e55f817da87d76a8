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

/** The expected token of an answer, which drafts guess. */
const expected: TokenId = 0

/** A part of a prompt. A key gives the same tokens in every prompt; the empty key gives tokens of an answer. */
export interface PromptPart {
  readonly key: string
  readonly tokens: number
  /**
   * The part's tokens stand for a call of this tool, which must be one of `tools`. Where a prompt ends with
   * such a token, the answer begins with the call.
   */
  readonly call?: string
}

/**
 * Token ids that stand for a prompt: equal where two prompts have the same part at the same place, and
 * different elsewhere, except by rare chance.
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
      // 0 is the expected token of answers, which no other part has.
      ids.push(1 + (state >>> 3))
    }
  }
  return ids
}

/** The lowest token id of a tool call, above all token ids of prompts. */
const firstCall = 2 ** 29 + 1

/** The token id that stands for a call of this tool. */
export const callToken = (tool: string): TokenId => firstCall + (hashOf(tool) >>> 4)

/** Token ids of prompts are 30-bit numbers. */
export const vocabularySize = 2 ** 30
/** An answer's token that drafts did not guess. Prompts do not have it, so no answer is found as a prefix. */
const unexpected: TokenId = vocabularySize - 1

/** Length of a prompt's end that seeds the draws of its answer, in tokens. */
export const hashedTokens = 8

/** Draws an answer's tokens by a hash of the prompt's end and the position: the same request, the same answer. */
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

/** A tokenizer that knows the texts of tool calls; other tokens have no text. */
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

/** Drafts expected tokens only: the {@link SimulatedBackend} decides how many are accepted. */
export const simulatedProposer: ProposerDefinition = {
  name: 'simulated',
  doc: 'Guesses what a simulated model is expected to say.',
  create: () => ({
    begin: () => ({
      propose: (_, most) => ({ tokens: Array.from({ length: most }, () => expected) }),
    }),
  }),
}

/** Mixes a value into a 32-bit hash. */
export const mixed = (hash: number, value: number): number =>
  mixBits(hash ^ Math.imul(value + 1, 0x9e3779b1))

/** Draws a token for each output, up to the first rejected draft token. */
export function outputsOf({ outputs, drafts = 0, sampler }: BatchItem): readonly StepOutput[] {
  const drawn: StepOutput[] = []
  for (const position of outputs) {
    const token = sampler instanceof SimulatedSampler ? sampler.draw(position) : expected
    drawn.push({ position, token })
    if (drafts > 0 && token !== expected) break
  }
  return drawn
}

/** Costs of encoding images on a simulated machine. */
export interface SimulatedEncodes {
  /** Milliseconds for an image. */
  readonly encodeMs: number
  /** Share of the machine that steps lose while an image is encoded, 0 to 1; 0 with a processor for images. */
  readonly lostShare: number
}

/** Encodes in simulated time, beside steps. An image's data is its number of tokens, a space and a name. */
export class SimulatedEncoder implements MediaEncoder {
  #isBusy = false

  constructor(
    private readonly clock: Clock,
    private readonly costs: SimulatedEncodes,
  ) {}

  /** Factor of a step's time while an image is encoded, else 1. */
  get slowness(): number {
    return this.#isBusy ? 1 / (1 - this.costs.lostShare) : 1
  }

  async prepare({ data: key }: MediaFile): Promise<EncodeJob> {
    const length = Number.parseInt(key, 10)
    const tokens = promptIds([{ key, tokens: length }])
    const encoded = (vectors: Float32Array): EncodedMedia => ({
      tokens,
      spans: [{ start: 0, length, vectors }],
    })
    const run: EncodeJob['run'] = async (_, onCounted) => {
      onCounted?.(encoded(new Float32Array()))
      this.#isBusy = true
      await pause(this.clock, this.costs.encodeMs)
      this.#isBusy = false
      return encoded(new Float32Array(length))
    }
    return { key, size: length, run }
  }
}
