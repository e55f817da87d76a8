import t from 'tap'
import { availableMemory } from '../../src/engine/available-memory.js'

t.test('what a process may still take', async (t) => {
  t.equal(availableMemory({ limit: undefined, used: 5 }), Infinity)
  t.equal(availableMemory({ limit: 0, used: 5 }), Infinity)
  t.equal(availableMemory({ limit: 8e9, used: 1e9 }), 7e9)
  t.equal(availableMemory({ limit: 8e9, used: 9e9 }), 0)
  t.ok(availableMemory() > 0)
})
