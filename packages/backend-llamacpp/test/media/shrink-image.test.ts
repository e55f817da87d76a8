import t from 'tap'
import { shrinkImage } from '../../src/media/shrink-image.js'

t.test('a picture shrinks to the means of its pixels', async (t) => {
  const grey = (...values: number[]) => Uint8Array.from(values.flatMap((one) => [one, one, 0]))
  const picture = { width: 4, height: 2, pixels: grey(0, 10, 200, 100, 20, 30, 100, 0) }
  t.equal(shrinkImage(picture, 4), picture)
  t.same(shrinkImage(picture, 2), { width: 2, height: 1, pixels: grey(15, 100) })
  t.same(shrinkImage(picture, 1), { width: 1, height: 1, pixels: grey(58) })
  // parts of a pixel count as whole ones
  t.same(shrinkImage(picture, 3).width, 3)
  const line = { width: 1, height: 2000, pixels: new Uint8Array(6000).fill(7) }
  t.same(shrinkImage(line, 512), { width: 1, height: 512, pixels: new Uint8Array(1536).fill(7) })
})
