import { blockMeans, estimateSlope, randomSource } from '@cllm/bench'
import t from 'tap'

t.test('the slope of a line with noise lies within its interval 19 times of 20', async (t) => {
  let hits = 0
  for (let seed = 0; seed < 400; seed++) {
    const random = randomSource(seed, 'slope')
    const points = Array.from({ length: 30 }, (_, x): [number, number] => [
      x,
      2 - 0.5 * x + random() + random() + random(),
    ])
    const { low, high } = estimateSlope(points)!
    if (low! <= -0.5 && -0.5 <= high!) hits++
  }
  t.ok(hits > 365 && hits < 395, `${hits} of 400`)
  t.match(estimateSlope([1, 2, 3].map((x) => [x, 3 * x])), { mean: 3, low: 3, high: 3, count: 3 })
  t.equal(estimateSlope([[1, 2]]), undefined)
  t.equal(estimateSlope([1, 2, 3].map((y) => [1, y])), undefined)
})

t.test('blocks', async (t) => {
  const points = Array.from({ length: 7 }, (_, x): [number, number] => [x, 10 * x])
  t.same(blockMeans(points, 3), [
    [0.5, 5],
    [2.5, 25],
    [4.5, 45],
  ])
  t.same(blockMeans(points.slice(0, 2), 3), points.slice(0, 2))
})
