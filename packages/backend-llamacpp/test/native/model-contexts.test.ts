import t from 'tap'
import { openTiny, sampling } from '../open-tiny.js'

for (const native of ['ffi', 'addon'] as const) {
  t.test(`${native}: nothing is freed that a thread still uses`, async (t) => {
    const tokens = Array.from({ length: 60 }, (_, index) => 5 + index)
    const constraint = { type: 'gbnf', grammar: 'root ::= [a-z]+' } as const
    const [stepping, embedding] = [await openTiny(t, { native }), await openTiny(t, { native })]
    const sampler = stepping.createSampler(sampling({ constraint }), tokens)
    const step = stepping.step([{ slot: 0, position: 0, tokens, outputs: [59], sampler }])
    const vectors = embedding.embed!([tokens])
    const ends = [stepping.dispose(), embedding.dispose()]
    await t.rejects(step, { code: 'backend_failed', message: /disposed/ })
    await t.rejects(vectors, /disposed/, 'its context was still to be made')
    await Promise.all(ends)
    sampler.dispose()
    const gone = { code: 'backend_failed', message: /disposed/ }
    t.throws(() => stepping.checkConstraint!(constraint), gone)
    t.throws(() => stepping.createSampler(sampling(), tokens), gone)
  })
}
