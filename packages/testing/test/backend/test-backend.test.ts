import {
  CllmError,
  type Backend,
  type BatchItem,
  type ChatMessage,
  type OutputConstraint,
  type SamplingParams,
  type TokenDecoder,
  type TokenId,
  type Tokenizer,
} from '@cllm/core'
import { testBackend, FakeBackend, FakeTokenizer, type FakeBackendOptions } from '@cllm/testing'
import t from 'tap'
import { RecordingContext } from '../recording-context.js'

await testBackend(t, () => new FakeBackend())
await testBackend(
  t,
  () => new FakeBackend({ id: 'small', slots: 1, contextSize: 32, batchSize: 2 }),
)
await testBackend(t, () => new FakeBackend({ id: 'pooled', kvTokens: 600 }))
await testBackend(t, () => new FakeBackend({ id: 'coarse', keepMultipleOf: 8, contextSize: 600 }))
await testBackend(t, () => new FakeBackend({ id: 'ending', endProbability: 0.3 }), { exact: false })
await testBackend(t, () => new FakeBackend({ id: 'adapted', adapters: true, contextShift: true }), {
  adapter: 'other.gguf',
})

await testBackend(t, () => new FakeBackend({ id: 'embedding', embeddingSize: 4 }))
await testBackend(t, () => {
  const backend = new FakeBackend({ id: 'reading', embeddingSize: 4 })
  const step = () => Promise.reject(new CllmError('unsupported', 'it writes no text'))
  return Object.assign(backend, {
    step,
    capabilities: { ...backend.capabilities, generates: false },
  })
})

class Broken extends FakeBackend {
  // A broken backend does not complain; what it does to the fake model's tokens is what is to be found.
  constructor(options: FakeBackendOptions = {}) {
    super({ contextSize: 128, ...options })
  }
}

function withoutDrawLogprobs({ drawLogprobs, ...item }: BatchItem): BatchItem {
  return drawLogprobs === undefined ? item : { ...item }
}

const broken: [string, RegExp, () => Backend][] = [
  [
    'embeds one of several inputs',
    /embeds several inputs at once.*one vector per input/s,
    () =>
      new (class extends Broken {
        override readonly limits = { ...new Broken().limits, embeddingInputs: 2 }
        override async embed(inputs: readonly (readonly TokenId[])[]) {
          return await super.embed(inputs.slice(0, 1))
        }
      })({ embeddingSize: 4 }),
  ],
  [
    'keeps what an interrupted step has computed',
    /a step that is interrupted has changed nothing.*position/s,
    () => {
      let isAsked = false
      return new (class extends Broken {
        override interrupt() {
          isAsked = true
        }
        override async step(batch: readonly BatchItem[]) {
          isAsked = false
          const result = await super.step(batch)
          return isAsked ? { outputs: [], decodeMs: 0, sampleMs: 0, isInterrupted: true } : result
        }
      })()
    },
  ],
  [
    'forgets the probabilities of draws',
    /log probabilities of a draw.*when asked for/s,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          return await super.step(batch.map(withoutDrawLogprobs))
        }
      })(),
  ],
  [
    'renders long chats otherwise',
    /a conversation is rendered.*in parts has the tokens of the whole/s,
    () =>
      withTokenizer((tokenizer) => ({
        renderChatInParts: (messages: readonly ChatMessage[]) => {
          const { tokens } = tokenizer.renderChat(messages.slice(0, 1))
          return { text: tokenizer.renderChat(messages).text, tokens: [tokens] }
        },
      })),
  ],
  [
    'cuts what it rendered',
    /a conversation is rendered.*its tokens are its text/s,
    () =>
      withTokenizer((tokenizer) => ({
        renderChat(...of) {
          const { text, tokens } = tokenizer.renderChat(...of)
          return { text, tokens: tokens.slice(0, -1) }
        },
      })),
  ],
  [
    'lets messages open a turn',
    /a conversation is rendered.*a message writes no control tokens/s,
    () =>
      withTokenizer((tokenizer) => ({
        renderChat(...of) {
          const { text } = tokenizer.renderChat(...of)
          return { text, tokens: tokenizer.encode(text) }
        },
      })),
  ],
  [
    'has no suffix',
    /a conversation is rendered.*the suffix stands behind it/s,
    () =>
      withTokenizer((tokenizer) => ({
        renderChat: (messages, options) =>
          tokenizer.renderChat(messages, { ...options, suffix: '' }),
      })),
  ],
  [
    'has other bytes than text',
    /the bytes of tokens are those of their text/,
    () =>
      withTokenizer((tokenizer) => ({
        bytesOf: (token: TokenId) => tokenizer.bytesOf(token).map((byte) => byte ^ 1),
      })),
  ],
  [
    'computes embeddings in a slot',
    /embeds an input beside/,
    () =>
      new (class extends Broken {
        override async embed(inputs: readonly (readonly TokenId[])[]) {
          this.release(0)
          return await super.embed(inputs)
        }
      })({ embeddingSize: 4 }),
  ],
  [
    'ignores adapters',
    /with the adapter it says something else/,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          return await super.step(batch.map((item) => ({ ...item, adapters: [] })))
        }
      })({ adapters: true }),
  ],
  [
    'goes on with the adapters of the step before',
    /without it again what it said|other adapters|beside others as alone/,
    () =>
      new (class extends Broken {
        #last: BatchItem['adapters']
        override async step(batch: readonly BatchItem[]) {
          const [first] = batch
          if (first?.position === 0 && first.adapters !== undefined) this.#last = first.adapters
          const adapters = this.#last ?? []
          return await super.step(batch.map((item) => ({ ...item, adapters })))
        }
      })({ adapters: true }),
  ],
  [
    'leaves a slot full',
    /a released slot is empty: .*overlap/,
    () =>
      new (class extends Broken {
        override release(slot: number) {
          if (this.content(slot).length !== 27) super.release(slot)
        }
      })(),
  ],
  [
    'draws behind a wrong draft',
    /drafts are verified up to the first that is not drawn: .*draft 0 is wrong/s,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          return await super.step(batch.map((item) => ({ ...item, drafts: 0 })))
        }
      })(),
  ],
  [
    'keeps more than asked',
    /cut off can be computed again: .*/,
    () =>
      new (class extends Broken {
        override truncate(slot: number, length: number) {
          super.truncate(slot, length)
          return length + 1
        }
      })(),
  ],
  [
    'copies too little',
    /a copied prefix is as good/,
    () =>
      new (class extends Broken {
        override async copyPrefix(from: number, to: number, length: number) {
          await super.copyPrefix(from, to, Math.max(0, length - 1))
          return length
        }
      })(),
  ],
  [
    'copies other tokens',
    /a copied prefix is as good/,
    () =>
      new (class extends Broken {
        override async copyPrefix(from: number, to: number, length: number) {
          const tokens = this.content(from).slice(0, length).toReversed()
          this.release(to)
          if (length > 0) await this.step([{ slot: to, position: 0, tokens, outputs: [] }])
          return length
        }
      })(),
  ],
  [
    'prefers a used slot',
    /slot 0 is preferred of the free ones/,
    () =>
      new (class extends Broken {
        override preferSlot() {
          return 0
        }
      })(),
  ],
  [
    'loses an output',
    /one output per wanted position/,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          const result = await super.step(batch)
          return { ...result, outputs: result.outputs.map((outputs) => outputs.slice(1)) }
        }
      })(),
  ],
  [
    'mixes sequences up',
    /in one batch do not disturb each other/,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          const result = await super.step(batch)
          const tokens = result.outputs
            .flat()
            .map(({ token }) => token)
            .reverse()
          const outputs = result.outputs.map((list) =>
            list.map(({ position }) => ({ position, token: tokens.shift() ?? 0 })),
          )
          return { ...result, outputs }
        }
      })(),
  ],
  [
    'does work before it fails',
    /changes nothing: .*overlap/,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          try {
            return await super.step(batch)
          } catch (error) {
            for (const item of batch) await super.step([item]).catch(() => {})
            throw error
          }
        }
      })(),
  ],
  [
    'takes more than the context',
    /beyond contextSize makes the step fail/,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          const fits = ({ position, tokens }: BatchItem) => tokens.slice(0, 128 - position)
          return await super.step(batch.map((item) => ({ ...item, tokens: fits(item) })))
        }
      })(),
  ],
  [
    'draws by a state of its own',
    /random draws are a function/,
    () => withParams((params, calls) => ({ ...params, seed: params.seed + calls })),
  ],
  [
    'draws by the sampler, not the position',
    /rebuilt elsewhere/,
    () => withParams((params, _, tokens) => ({ ...params, seed: params.seed + tokens.length })),
  ],
  [
    'has no seed',
    /other seeds draw other tokens/,
    () => withParams((params) => ({ ...params, seed: 1 })),
  ],
  [
    'does not know topK',
    /one candidate left/,
    () => withParams((params) => ({ ...params, topK: 0 })),
  ],
  [
    'does not know topP',
    /one candidate left/,
    () => withParams((params) => ({ ...params, topP: 1 })),
  ],
  [
    'does not know minP',
    /one candidate left/,
    () => withParams((params) => ({ ...params, minP: 0 })),
  ],
  [
    'has no bias',
    /a logit bias forbids/,
    () => withParams((params) => ({ ...params, logitBias: [] })),
  ],
  [
    'ends nevertheless',
    /in spite of ignoreEos/,
    () => withParams((params) => ({ ...params, ignoreEos: false })),
  ],
  [
    'has no penalties',
    /tokens that are drawn again/,
    () => withParams((params) => ({ ...params, repetitionPenalty: 1 })),
  ],
  [
    'draws what is not in the vocabulary',
    /token 300 is outside/,
    () => new Broken({ script: () => 300 }),
  ],
  [
    'ignores constraints',
    /honours constraints .*keeps to \{"type":"regex"/s,
    () => Object.assign(new Broken(), { checkConstraint: refuseNonsense }),
  ],
  [
    'takes any constraint',
    /honours constraints .*is refused/s,
    () => Object.assign(new Broken(), { checkConstraint: () => {} }),
  ],
  [
    'ends the checks of others',
    /that is ended ends, and no other: .*its client has left/s,
    () => Object.assign(new Broken(), { checkConstraint: endOthers() }),
  ],
  ['ignores samplers', /samplers of plug-ins see all logits/, () => withSamplers()],
  [
    'lists too few likely tokens',
    /log probabilities are those of the model.*as many of the likeliest/s,
    () =>
      new (class extends Broken {
        override async step(batch: readonly BatchItem[]) {
          return await super.step(
            batch.map((item) => ({ ...item, ...(item.logprobs && { logprobs: 3 }) })),
          )
        }
      })(),
  ],
  [
    'cannot be disposed of',
    /can be disposed of: no/,
    () =>
      new (class extends Broken {
        override async dispose() {
          throw new CllmError('internal', 'no')
        }
      })(),
  ],
  [
    'has another vocabulary',
    /describes itself/,
    () =>
      new (class extends Broken {
        override readonly model = { ...new FakeBackend().model, vocabularySize: 7 }
      })(),
  ],
  [
    'breaks characters',
    /never a broken character/,
    () =>
      withTokenizer((tokenizer) => ({
        createDecoder: () => ({
          push: (token) => Buffer.from(tokenizer.decode([token]) || '\ufffd').toString(),
          end: () => '',
        }),
      })),
  ],
  [
    'repeats the text before',
    /goes on where another/,
    () =>
      withTokenizer((tokenizer) => ({
        createDecoder: (before) => {
          const decoder = tokenizer.createDecoder()
          let text = (before ?? []).map((token) => decoder.push(token)).join('')
          return {
            push: (token) => {
              const all = text + decoder.push(token)
              text = ''
              return all
            },
            end: () => '',
          }
        },
      })),
  ],
  [
    'changes text',
    /text goes to tokens and back/,
    () =>
      withTokenizer((tokenizer) => ({
        encode: (text, options) => tokenizer.encode(text.trim(), options),
      })),
  ],
  [
    'counts characters',
    /for \d+ bytes, at most \d+/,
    () => withTokenizer(() => ({ maxTokenBytes: 1 })),
  ],
  [
    'lets any id through',
    /decoding -1 throws invalid_token/,
    () =>
      withTokenizer((tokenizer) => ({
        decode: (tokens) => tokenizer.decode(tokens.filter((token) => token >= 0 && token < 300)),
      })),
  ],
  [
    'has one decoder for all texts',
    /decoders do not disturb each other/,
    () =>
      withTokenizer((tokenizer) => {
        let latest: TokenDecoder
        const createDecoder = (before?: readonly TokenId[]): TokenDecoder => {
          latest = tokenizer.createDecoder(before)
          return { push: (token) => latest.push(token), end: () => latest.end() }
        }
        return { createDecoder }
      }),
  ],
  [
    'renders nothing',
    /the text has the message/,
    () =>
      withTokenizer(() => ({
        renderChat: () => ({ text: '', tokens: [] }),
      })),
  ],
]

function refuseNonsense(constraint: OutputConstraint): void {
  if (/\(/.test(JSON.stringify(constraint))) throw new CllmError('invalid_constraint', 'nonsense')
}

function endOthers(): NonNullable<Backend['checkConstraint']> {
  let left: AbortSignal | undefined
  return async (constraint, signal) => {
    refuseNonsense(constraint)
    left ??= signal
    await Promise.resolve()
    left?.throwIfAborted()
  }
}

function withSamplers(): Backend {
  const backend = new Broken()
  return Object.assign(backend, { capabilities: { ...backend.capabilities, samplers: true } })
}

function withParams(
  change: (params: SamplingParams, calls: number, tokens: readonly TokenId[]) => SamplingParams,
): Backend {
  let calls = 0
  return new (class extends Broken {
    override createSampler(params: SamplingParams, tokens: readonly TokenId[]) {
      return super.createSampler(change(params, calls++, tokens), tokens)
    }
  })()
}

function withTokenizer(change: (tokenizer: FakeTokenizer) => Partial<Tokenizer>): Backend {
  const tokenizer = new FakeTokenizer()
  return new (class extends Broken {
    override readonly tokenizer = Object.assign(new FakeTokenizer(), change(tokenizer))
  })()
}

t.test('the suite finds a backend that', async (t) => {
  for (const [defect, message, make] of broken) {
    const recording = new RecordingContext(message)
    await testBackend(recording, make, { adapter: 'other.gguf' })
    t.match(recording.failures.join('\n'), message, defect)
  }
})

t.test('a backend may refuse chats and several outputs', async (t) => {
  const refuse = () => {
    throw new CllmError('unsupported', 'not here')
  }
  const recording = new RecordingContext()
  await testBackend(
    recording,
    () =>
      new (class extends Broken {
        override readonly tokenizer = Object.assign(new FakeTokenizer(), { renderChat: refuse })
        override readonly capabilities = { ...new FakeBackend().capabilities, drafts: false }
        override async step(batch: readonly BatchItem[]) {
          return batch.some(({ outputs }) => outputs.length > 1) ? refuse() : super.step(batch)
        }
      })(),
  )
  t.same(recording.failures, [])
})
