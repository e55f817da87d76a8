// An encoder that says what a test's options ask for: two tokens around as many vectors as the image is wide, half of them at low detail. One of 12 vectors is read as a whole. An image
// of 13 pixels' width ends the process, one of 14 cannot be read behind its first vectors, and
// for one of 15 there is no answer. Vectors of an image of 17 are in the file, of which there are a few in the message, too.
// An image of 18 or more is counted before.
import { writeSync } from 'node:fs'

const { modelPath, mmprojPath, gpuLibrary, vectorFile } = JSON.parse(process.argv[2])
process.on('disconnect', () => process.exit(0))
if (gpuLibrary === 'full') process.kill(process.pid, 'SIGABRT')
else if (modelPath === 'missing') {
  process.send({ type: 'error', message: 'missing cannot be read' })
  process.disconnect()
} else if (modelPath !== 'slow') {
  process.send({
    type: 'ready',
    types: mmprojPath === 'hears.gguf' ? ['image', 'audio'] : ['image'],
  })
}
process.on('message', ({ file, detail, width }) => {
  const pixels = Buffer.from(file).readUInt32BE(16) / (detail === 'low' ? 2 : 1)
  if (pixels === 13) process.kill(process.pid, 'SIGKILL')
  if (pixels === 15) return
  if (pixels === 14) {
    if (vectorFile !== undefined) writeSync(vectorFile, new Uint8Array(8), 0, 8, 0)
    process.send({ type: 'failed', message: 'unreadable', isUnreadable: true })
  } else {
    const vectors = new Float32Array(pixels * width).fill(pixels)
    const shape = pixels === 12 ? { length: 12, isWhole: true } : undefined
    const pieces = [{ tokens: [7] }, { count: pixels, vectors, shape }, { tokens: [8] }]
    if (pixels === 17) {
      writeSync(vectorFile, new Uint8Array(vectors.buffer), 0, vectors.byteLength, 5)
      pieces.splice(2, 1, { count: pixels, at: 5 })
    }
    if (pixels >= 18) {
      const counted = [{ tokens: [7] }, { count: pixels, vectors: new Float32Array() }]
      process.send({ type: 'counted', pieces: [...counted, { tokens: [8] }] })
    }
    process.send({ type: 'encoded', pieces })
  }
})
