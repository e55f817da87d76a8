import type { TokenId } from '@cllm/core'
import t from 'tap'
import { collect, greedy, promptOf, rig, WatchedBackend } from '../rig.js'

t.test('a backend without embeddings says so', async (t) => {
  const { client } = rig()
  await t.rejects(client.embed({ text: 'x' }), {
    code: 'unsupported',
    status: 400,
    details: { capability: 'embeddings' },
  })
})

t.test('one embedding between two steps, all at once in idle time', async (t) => {
  const order: string[] = []
  class Embedding extends WatchedBackend {
    override readonly capabilities = { ...new WatchedBackend().capabilities, embeddings: true }

    override async step(batch: Parameters<WatchedBackend['step']>[0]) {
      order.push('step')
      return await super.step(batch)
    }

    override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
      if (this.stepping) throw new Error('during a step')
      order.push('embed')
      await new Promise<void>((resolve) => void made.clock.at(made.clock.now() + 50, resolve))
      if (inputs.some((tokens) => tokens.length === 3)) throw new RangeError('three')
      return inputs.map((tokens) => [tokens.length])
    }
  }
  const made = rig({ backend: (given) => new Embedding(given) })
  const { client, run } = made
  const inputs = [1, 2, 4, 5].map((length) => client.embed({ tokens: promptOf(length) }))
  const vectors = (await run(Promise.all(inputs))).map(({ vector }) => vector)
  t.same(vectors, [[1], [2], [4], [5]])
  t.same(order.splice(0), ['embed', 'embed', 'embed', 'embed'])

  const generating = collect(client.submit(greedy(promptOf(9), 4)))
  const during = [1, 2, 4].map((length) => client.embed({ tokens: promptOf(length) }))
  const failing = client.embed({ tokens: promptOf(3) }).catch((error: unknown) => error)
  const [{ tokens }, ...rest] = await run(Promise.all([generating, ...during]))
  t.equal(tokens.length, 4)
  t.same(
    rest.map(({ promptTokens }) => promptTokens),
    [1, 2, 4],
  )
  t.notMatch(order.join(' '), /embed embed.*step/, 'generation never waits for two')
  t.match(await run(failing), { code: 'backend_failed', message: 'three' })

  const last = client.embed({ tokens: promptOf(1) })
  const refused = client.embed({ tokens: promptOf(2) }).catch((error: unknown) => error)
  await run(client.close())
  t.same((await last).vector, [1], 'what is computed is waited for')
  t.match(await refused, { code: 'shutting_down' })
})

t.test('a pass has as many inputs as the backend takes', async (t) => {
  const passes: number[][] = []
  class Wide extends WatchedBackend {
    override readonly capabilities = { ...new WatchedBackend().capabilities, embeddings: true }
    override readonly limits = {
      ...new WatchedBackend().limits,
      embeddingTokens: 12,
      embeddingInputs: 3,
    }

    override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
      passes.push(inputs.map(({ length }) => length))
      await new Promise<void>((resolve) => void made.clock.at(made.clock.now() + 50, resolve))
      if (inputs.some(({ length }) => length === 7)) throw new RangeError('seven')
      return inputs.map(({ length }) => [length])
    }
  }
  const made = rig({ backend: (given) => new Wide(given) })
  const { client, run } = made
  const embed = (length: number) =>
    client.embed({ tokens: promptOf(length) }).then(
      ({ vector }) => vector[0],
      (error: Error) => error.message,
    )
  const lengths = [2, 1, 4, 4, 5, 7, 1, 12, 1]
  t.same(await run(Promise.all(lengths.map(embed))), [2, 1, 4, 4, 5, 'seven', 1, 12, 1])
  const alone = [[5], [7]]
  t.same(passes, [[2], [1, 4, 4], [5, 7], ...alone, [1], [12], [1]], 'the first does not wait')
})
