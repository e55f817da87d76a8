import t from 'tap'
import { openTiny, sampling } from '../open-tiny.js'

t.test("logprobs are the model's own, whatever the sampling", async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('It was a dark and stormy night')
  const ask = async (params: Parameters<typeof sampling>[0], logprobs?: number) => {
    backend.release(0)
    const sampler = backend.createSampler(sampling(params), tokens)
    const outputs = [tokens.length - 1]
    const item = { slot: 0, position: 0, tokens, outputs, sampler }
    const step = await backend.step([logprobs === undefined ? item : { ...item, logprobs }])
    sampler.dispose()
    return step.outputs[0]![0]!
  }
  t.equal((await ask({ temperature: 0 })).logprobs, undefined, 'not asked for')
  const greedy = await ask({ temperature: 0 }, 20)
  const { top, logprob } = greedy.logprobs!
  t.equal(top.length, 20)
  t.equal(top[0]?.token, greedy.token)
  t.equal(top[0]?.logprob, logprob)
  t.same(
    top.map((other) => other.logprob),
    top.map((other) => other.logprob).toSorted((a, b) => b - a),
  )
  t.same((await ask({ temperature: 0 }, 0)).logprobs, { logprob, top: [] })
  const hot = await ask({ temperature: 5, seed: 3, topK: 40, repetitionPenalty: 1.5 }, 20)
  t.same(hot.logprobs?.top, top, 'of the distribution before temperature, penalties and cuts')

  // every token's probability, one forced draw at a time
  let sum = 0
  const near = (a: number, b: number) => Math.abs(a - b) < 2e-3
  for (let token = 0; token < backend.tokenizer.vocabularySize; token++) {
    const forced = await ask({ temperature: 0, logitBias: [[token, 100]] }, 0)
    t.equal(forced.token, token)
    const { logprob } = forced.logprobs!
    sum += Math.exp(logprob)
    const listed = top.find((other) => other.token === token)
    if (listed) t.ok(near(listed.logprob, logprob), `token ${token}`)
  }
  t.ok(near(sum, 1), `they sum up to ${sum}`)
})
