import t from 'tap'
import type { LlamaCppBackend } from '../../src/llamacpp-backend.js'
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

  t.test(`${native}: what fails to end keeps nothing else from it`, async (t) => {
    const backend = (await openTiny(t, { native })) as LlamaCppBackend
    const { samplers, grammars, context } = backend['parts']
    const model = t.capture(backend['parts'], 'close', backend['parts'].close)
    const fail = (reason: string) => () => Promise.reject(new Error(reason))
    t.intercept(samplers, 'dispose', { value: fail('first') })
    t.intercept(grammars, 'dispose', { value: fail('second') })
    await t.rejects(backend.dispose(), { message: 'first' })
    await t.rejects(context.decodeBatch([]), /disposed/)
    t.equal(model().length, 1, 'the weights are freed')
  })
}
