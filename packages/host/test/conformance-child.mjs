import { hostConformanceEngine } from '@cllm/testing'

process.once('disconnect', () => process.exit(0))
hostConformanceEngine({
  send: (message) => void process.send(message),
  onMessage: (listener) => void process.on('message', listener),
  onClose: (listener) => void process.once('disconnect', () => listener('its parent is gone')),
})
