// An encoder that says what a test's options ask for: two tokens around as many vectors as the image is wide. An image
// of 13 pixels' width ends the process, one of 14 cannot be read.
const { modelPath } = JSON.parse(process.argv[2])
process.on('disconnect', () => process.exit(0))
if (modelPath === 'missing') {
  process.send({ type: 'error', message: 'missing cannot be read' })
  process.disconnect()
} else process.send({ type: 'ready' })
process.on('message', ({ id, file, width }) => {
  const pixels = Buffer.from(file).readUInt32BE(16)
  if (pixels === 13) process.kill(process.pid, 'SIGKILL')
  if (pixels === 14) process.send({ type: 'failed', id, message: 'unreadable', isUnreadable: true })
  else {
    const vectors = new Float32Array(pixels * width).fill(pixels)
    const pieces = [{ tokens: [7] }, { count: pixels, vectors }, { tokens: [8] }]
    process.send({ type: 'encoded', id, pieces })
  }
})
