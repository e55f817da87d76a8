import { defineSampler, type LogitProcessor, mixBits, type SamplerContext } from '@cllm/core'
import { testSampler } from '@cllm/testing'
import t from 'tap'
import { z } from 'zod'
import { RecordingContext } from '../recording-context.js'

const made = (create: (options: { by: number }, context: SamplerContext) => LogitProcessor) =>
  defineSampler({
    name: 'example',
    doc: 'An example.',
    options: z.object({ by: z.number().default(2) }),
    create,
  })

/** Makes the latest token less likely, and another one at random. */
const good = made(({ by }, { seed, tokenizer }) => ({
  apply(logits, { position, tokens }) {
    const random = (mixBits(seed + position) >>> 0) % tokenizer.vocabularySize
    for (const token of [tokens[position]!, random]) logits[token] = logits[token]! - by
  },
}))

await testSampler(t, good)
await testSampler(t, good, { options: { by: 1000 } })
await testSampler(
  t,
  made(() => ({
    apply(logits) {
      const least = logits.reduce((most, logit) => (logit > most ? logit : most), -Infinity) - 3
      for (const [token, logit] of logits.entries()) {
        if (!(logit >= least)) logits[token] = -Infinity
      }
    },
  })),
)

const all = (change: (logit: number, token: number) => number): LogitProcessor => ({
  apply: (logits) => logits.forEach((logit, token) => (logits[token] = change(logit, token))),
})
let calls = 0
const broken: [string, RegExp, ReturnType<typeof made>, object?][] = [
  ['no doc', /is registered as \{ name, doc/, { ...good, doc: '' }],
  ['a doc of two lines', /its doc is one line/, { ...good, doc: 'One.\nTwo.' }],
  ['options that it does not have', /samplers.0.options/, good, { nothing: 1 }],
  ['what is no sampler', /made no sampler/, made(() => ({}) as LogitProcessor)],
  [
    'one that counts its calls',
    /does the same|seen later tokens/,
    made(() => {
      let count = 0
      return { apply: (logits) => (logits[0] = count++) }
    }),
  ],
  [
    'one that every other maker makes differently',
    /does the same/,
    made(() => {
      const add = calls++ % 2
      return all((logit) => logit + add)
    }),
  ],
  [
    'one that writes beside the logits',
    /beside the logits/,
    made(() => ({ apply: (logits) => new Float32Array(logits.buffer).fill(0) })),
  ],
  [
    'one that changes the tokens',
    /read only|not extensible|Cannot/,
    made(() => ({ apply: (_, { tokens }) => (tokens as number[]).push(1) })),
  ],
  ['one that makes NaN', /made a logit NaN/, made(() => all((logit) => Math.sqrt(logit)))],
  ['one that forbids all', /all are forbidden/, made(() => all(() => -Infinity))],
  [
    'one that allows what was forbidden',
    /was forbidden/,
    made(() => all((logit) => (Number.isFinite(logit) ? logit : 0))),
  ],
  [
    'one that spreads NaN',
    /became NaN|all are forbidden/,
    made(() => ({
      apply(logits) {
        const sum = logits.reduce((sum, logit) => sum + logit, 0)
        if (!Number.isFinite(sum)) logits.fill(NaN)
      },
    })),
  ],
]
for (const [what, reason, definition, options] of broken) {
  t.test(`the suite fails with ${what}`, async (t) => {
    const context = new RecordingContext()
    await testSampler(context, definition, options === undefined ? {} : { options: { ...options } })
    t.match(context.failures.join('\n'), reason)
  })
}
