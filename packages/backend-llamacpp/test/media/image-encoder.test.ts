import { fileURLToPath } from 'node:url'
import { CllmError } from '@cllm/core'
import { assert, integer, property, uint8Array } from 'fast-check'
import t, { type Test } from 'tap'
import { ImageEncoder } from '../../src/media/image-encoder.js'
import { checkImage } from '../../src/media/image-head.js'
import { openTiny, recordingLogger } from '../open-tiny.js'

const entry = fileURLToPath(new URL('scripted-encoder.mjs', import.meta.url))

/** The head of a PNG file, which is all that is looked at before it is decoded. */
function png(width: number, height = 10): Buffer {
  const head = Buffer.from('89504e470d0a1a0a0000000d4948445200000000000000000802000000', 'hex')
  head.writeUInt32BE(width, 16)
  head.writeUInt32BE(height, 20)
  return head
}

const image = (width: number) => png(width).toString('base64')

async function open(t: Test, modelPath = 'model.gguf') {
  const logger = recordingLogger()
  const files = { library: 'lib', modelPath, mmprojPath: 'mmproj.gguf', threads: 1 }
  const sizes = { vocabularySize: 100, width: 4, cacheBytes: 4000 }
  const encoder = new ImageEncoder({ ...files, ...sizes }, logger, entry)
  t.teardown(() => encoder.dispose())
  await encoder.open()
  return { encoder, logger }
}

t.test('an image becomes tokens and ids of its own, and is kept', async (t) => {
  const { encoder } = await open(t)
  const [one, same, other] = await Promise.all([
    encoder.encode(image(20)),
    encoder.encode(image(20)),
    encoder.encode(image(21)),
  ])
  t.equal(one, same, 'the same image at the same time is encoded once')
  t.equal(await encoder.encode(image(20)), one)
  t.equal(one.tokens.length, 22)
  t.same([one.tokens[0], one.tokens.at(-1)], [7, 8])
  t.match(one.spans, [{ start: 1, length: 20 }])
  const ids = one.tokens.slice(1, -1)
  t.ok(ids.every((id) => id >= 100 && id <= 0x7fff_ffff))
  t.equal(new Set([...ids, ...other.tokens.slice(1, -1)]).size, 41, 'no id is of both')
  for (let width = 100; width < 110; width++) await encoder.encode(image(width))
  const again = await encoder.encode(image(20))
  t.not(again, one, 'what is not used makes way')
  t.same(again.tokens, one.tokens, 'its ids are the same again')
})

t.test('an image that ends the process costs itself alone', async (t) => {
  const { encoder, logger } = await open(t)
  const others = [encoder.encode(image(6)), encoder.encode(image(7))]
  const fatal = encoder.encode(image(13))
  const behind = [encoder.encode(image(8)), encoder.encode(image(9))]
  await t.rejects(fatal, { code: 'backend_failed', message: /ended while/ })
  const encoded = await Promise.all([...others, ...behind])
  t.same(
    encoded.map(({ tokens }) => tokens.length),
    [8, 9, 10, 11],
    'those before and behind it have their answers',
  )
  t.match(logger.lines, [{ level: 'warn', message: /starts again/ }])
  t.equal((await encoder.encode(image(5))).tokens.length, 7)
  await t.rejects(encoder.encode(image(14)), { code: 'invalid_media', message: /unreadable/ })
})

t.test('what is missing is said at the start', async (t) => {
  const missing = { code: 'invalid_configuration', message: /missing cannot be read/ }
  await t.rejects(open(t, 'missing'), missing)
  const unbuilt = { code: 'invalid_configuration', message: /cllm native build/ }
  await t.rejects(openTiny(t, { mmprojPath: 'mmproj.gguf' }), unbuilt)
  const library = { mmprojPath: 'mmproj.gguf', mediaLibrary: '/nowhere/libmtmd.so' }
  await t.rejects(openTiny(t, library), { code: 'invalid_configuration', message: /nowhere/ })
})

t.test('files are refused before a pixel is decoded', async (t) => {
  const refused = (file: Uint8Array): unknown => {
    try {
      checkImage(file)
      return undefined
    } catch (error) {
      return error
    }
  }
  t.equal(refused(png(8000, 8000)), undefined)
  t.match(refused(png(8001, 8000)), { code: 'invalid_media', message: /64 million pixels/ })
  t.match(refused(png(0)), { code: 'invalid_media' })
  t.match(refused(Buffer.from('<svg width="1" height="1"/>')), { message: /got svg/ })
  const isClear = (error: unknown) => error === undefined || CllmError.isInstance(error)
  const whole = png(20)
  assert(
    property(uint8Array({ maxLength: 64 }), integer({ min: 0, max: 28 }), (noise, at) => {
      const mixed = Buffer.concat([whole.subarray(0, at), noise])
      return isClear(refused(noise)) && isClear(refused(mixed))
    }),
  )
  t.pass('noise, and heads that break off')
})
