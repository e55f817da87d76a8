import type { LogitProcessor, SamplerContext, SamplerDefinition } from '@cllm/core'
import { testSampler } from '@cllm/core/testing'
import t from 'tap'
import { Candidates } from '../../../src/sampling/chain/candidates/candidates.js'
import { DrawRandom } from '../../../src/sampling/chain/random/draw-random.js'
import { SimdScan } from '../../../src/sampling/chain/scan/simd/simd-scan.js'
import type { ChainStep, LogitChange } from '../../../src/sampling/chain/steps/chain-step.js'
import { Dry } from '../../../src/sampling/chain/steps/dry.js'
import { LogitBias } from '../../../src/sampling/chain/steps/logit-bias.js'
import { MinP } from '../../../src/sampling/chain/steps/min-p.js'
import { Mirostat } from '../../../src/sampling/chain/steps/mirostat.js'
import { Penalties } from '../../../src/sampling/chain/steps/penalties.js'
import { TopK } from '../../../src/sampling/chain/steps/top-k.js'
import { TopNSigma } from '../../../src/sampling/chain/steps/top-n-sigma.js'
import { TopP } from '../../../src/sampling/chain/steps/top-p.js'
import { Typical } from '../../../src/sampling/chain/steps/typical.js'
import { Xtc } from '../../../src/sampling/chain/steps/xtc.js'
import { seedAt } from '../../../src/sampling/seed-at.js'
import { sampling } from '../../open-tiny.js'

const noVocabulary = { bytes: () => new Uint8Array(0), encode: () => [] }

function define(
  name: string,
  create: (context: SamplerContext) => LogitProcessor,
): SamplerDefinition {
  return { name, doc: 'One that is built in.', create: (_, context) => create(context) }
}

const changes: Readonly<Record<string, () => LogitChange>> = {
  'logit bias': () => new LogitBias([3, 5], [2, -Infinity]),
  penalties: () =>
    new Penalties(sampling({ repetitionPenalty: 1.5, presencePenalty: 1, frequencyPenalty: 0.3 })),
  dry: () => new Dry(sampling({ dryMultiplier: 1, dryAllowedLength: 1 }), noVocabulary),
}
for (const [name, create] of Object.entries(changes)) {
  const definition = define(name, () => {
    const change = create()
    return { apply: (logits, { tokens }) => change.apply(logits, tokens) }
  })
  await testSampler(t, definition)
}

const steps: Readonly<Record<string, () => ChainStep>> = {
  'top-k': () => new TopK(7),
  'top-p': () => new TopP(0.9),
  'min-p': () => new MinP(0.05),
  typical: () => new Typical(0.8),
  'top-nσ': () => new TopNSigma(1),
  xtc: () => new Xtc(0.5, 0.02, 1),
  mirostat: () => new Mirostat(3, 0.8),
}
for (const [name, create] of Object.entries(steps)) {
  const definition = define(name, ({ seed, tokenizer }) => {
    const scan = new SimdScan(tokenizer.vocabularySize)
    const candidates = new Candidates(scan)
    const random = new DrawRandom()
    const step = create()
    return {
      apply(logits, { position }) {
        random.seed(seedAt(seed, position))
        scan.load(logits)
        if (!candidates.begin()) return
        step.apply(candidates, random)
        candidates.list()
        const { ids, size } = candidates
        logits.fill(-Infinity)
        for (const id of ids.subarray(0, size)) logits[id] = scan.logits[id]!
      },
    }
  })
  await testSampler(t, definition)
}
