import t from 'tap'
import { SlotLayout } from '../../src/slots/slot-layout.js'

t.test('what gaps between slots cost', async (t) => {
  const layout = new SlotLayout()
  t.equal(layout.lostMs([0, 2, 4]), 0, 'nothing is known')
  layout.decoded([], 100)
  layout.decoded([0, 1, 2], 40)
  t.equal(layout.lostMs([2, 0, 1]), 0)
  t.equal(layout.lostMs([5]), 0)
  t.equal(layout.lostMs([]), 0)
  t.equal(layout.lostMs([0, 1, 3]), 11, 'one more pass, and a hole')
  t.equal(layout.lostMs([6, 4, 2, 0]), 33)
  t.ok(layout.lostMs([0, 1, 4]) > layout.lostMs([0, 1, 3]), 'narrow gaps are better')
  // two passes of four sequences: what was measured is weighed in slowly
  layout.decoded([0, 1, 5, 6], 108)
  t.equal(layout.lostMs([0, 2]), 1.1 * 11)
})
