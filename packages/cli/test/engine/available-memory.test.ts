import t from 'tap'
import { availableMemory } from '../../src/engine/available-memory.js'

t.test('what a process may still take', async (t) => {
  const total = 20e9
  t.equal(availableMemory(0, { limit: undefined, total, used: 1e9 }), 19e9)
  t.equal(availableMemory(0, { limit: 0, total, used: 1e9 }), 19e9)
  t.equal(availableMemory(0, { limit: 8e9, total, used: 1e9 }), 7e9)
  t.equal(availableMemory(4e9, { limit: 8e9, total, used: 1e9 }), 3e9, 'beside other engines')
  t.equal(availableMemory(0, { limit: 8e9, total, used: 9e9 }), 0)
  t.ok(availableMemory() > 0)
})
