import { assert, nat, property, tuple } from 'fast-check'
import t from 'tap'
import { decodeWebp, isWebp, shrinkImage } from '../../src/media/picture.js'
import { webp } from './hostile-files.js'

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

t.test('WebP files are decoded, and damaged ones refused', async (t) => {
  t.ok(isWebp(webp))
  t.notOk(isWebp(webp.subarray(0, 11)))
  const rows = [255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 40, 50, 60, 250, 251, 252]
  t.same(decodeWebp(webp), { width: 3, height: 2, pixels: Uint8Array.from(rows) })
  t.equal(decodeWebp(webp.subarray(0, -20)), undefined, 'cut off')
  assert(
    property(tuple(nat(webp.length - 13), nat(255)), ([at, byte]) => {
      const changed = Buffer.from(webp)
      changed[12 + at] = byte
      decodeWebp(changed)
    }),
  )
  t.match(decodeWebp(webp), { width: 3, height: 2 }, 'none harms the next')
})
