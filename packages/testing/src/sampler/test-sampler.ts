import assert from 'node:assert/strict'
import type { SamplerDefinition, LogitProcessor, TokenId } from '@cllm/core'
import { mixBits, SamplerCatalog } from '@cllm/core'
import { FakeTokenizer } from '../fakes/fake-tokenizer.js'
import { check, checkDefined, type TestContext } from '../test-context.js'

/** Options of {@link testSampler}. */
export interface TestSamplerOptions {
  /** What it is tested with, as a request gives it; default: nothing, so its own defaults. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** Draws of a sequence that the suite looks at. */
const draws = 40
const seeds = [1, 2, 0xffff_ffff]

const tokenizer = new FakeTokenizer()
const size = tokenizer.vocabularySize

/**
 * The conformance suite of samplers: what one does follows from its options, the seed and the place
 * alone; it changes logits and nothing else, makes no NaN, forgives NaN and −Infinity, and leaves
 * something to draw.
 */
export async function testSampler(
  t: TestContext,
  definition: SamplerDefinition,
  { options = {} }: TestSamplerOptions = {},
): Promise<void> {
  const catalog = new SamplerCatalog()
  const make = (seed: number): LogitProcessor => {
    const choice = { name: definition.name, options }
    const [processor] = catalog.create([choice], { tokenizer, seed })
    assert(processor !== undefined)
    return processor
  }

  await t.test(`sampler ${definition?.name}`, async (t) => {
    await checkDefined(t, 'sampler', definition, () => catalog.add(definition))

    await check(t, 'follows from options, seed and place alone', () => {
      for (const seed of seeds) {
        const whole = make(seed)
        const expected = places.map((tokens) => run(whole, tokens))
        assert.deepEqual(
          places.map((tokens) => run(make(seed), tokens)),
          expected,
          'one that is made in the middle of a sequence does the same',
        )
        const backwards = make(seed)
        const again = places.toReversed().map((tokens) => run(backwards, tokens))
        assert.deepEqual(again.toReversed(), expected, 'so does one that has seen later tokens')
      }
    })

    await check(t, 'changes logits and nothing else', () => {
      const processor = make(1)
      for (const tokens of places) {
        const guarded = new Float32Array(size + 2).fill(7)
        const logits = guarded.subarray(1, size + 1)
        logits.set(logitsOf(tokens))
        processor.apply(logits, { position: tokens.length - 1, tokens: Object.freeze([...tokens]) })
        assert.deepEqual([guarded[0], guarded[size + 1]], [7, 7], 'what is beside the logits')
        assert(!logits.some(Number.isNaN), 'it made a logit NaN')
      }
    })

    await check(t, 'leaves something to draw', () => {
      const processor = make(1)
      const flat = () => new Float32Array(size)
      for (const tokens of places) {
        for (const logits of [logitsOf(tokens), flat()]) {
          processor.apply(logits, { position: tokens.length - 1, tokens })
          assert(logits.some(Number.isFinite), `after ${tokens.length} tokens all are forbidden`)
        }
      }
    })

    await check(t, 'forgives logits that are NaN or infinite', () => {
      const processor = make(1)
      for (const tokens of places) {
        const logits = logitsOf(tokens)
        for (let token = 0; token < size; token += 3) logits[token] = token % 2 ? NaN : -Infinity
        processor.apply(logits, { position: tokens.length - 1, tokens })
        logits.forEach((logit, token) => {
          const wasForbidden = token % 3 === 0
          if (wasForbidden) assert(!(logit > -Infinity), `token ${token} was forbidden`)
          else assert(!Number.isNaN(logit), `the logit of ${token} became NaN`)
        })
        assert(logits.some(Number.isFinite), 'all are forbidden')
      }
    })
  })
}

/** Sequences with repetitions in them, each the beginning of the next. */
const places = Array.from({ length: draws }, (_, index) =>
  Array.from({ length: index + 1 }, (_, at): TokenId => (mixBits(at % 11) >>> 0) % size),
)

function run(processor: LogitProcessor, tokens: readonly TokenId[]): Float32Array {
  const logits = logitsOf(tokens)
  processor.apply(logits, { position: tokens.length - 1, tokens: [...tokens] })
  return logits
}

function logitsOf(tokens: readonly TokenId[]): Float32Array {
  return Float32Array.from({ length: size }, (_, token) => {
    return ((mixBits(token + Math.imul(tokens.length, 0x9e3779b9)) >>> 0) / 2 ** 32 - 0.5) * 12
  })
}
