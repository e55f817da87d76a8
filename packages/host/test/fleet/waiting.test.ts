import { SimulatedClock } from '@cllm/core'
import { Waiting, type Waits } from '@cllm/host'
import { runUntilIdle } from '@cllm/testing'
import t from 'tap'

interface Named extends Waits {
  readonly name: string
}

const item = (name: string, more: Partial<Waits> = {}): Named => ({
  name,
  hasBegun: false,
  expiresAt: Infinity,
  ...more,
})

/** What happens to those that wait, with the milliseconds since the beginning. */
function made() {
  const clock = new SimulatedClock()
  const began = clock.now()
  const told: string[] = []
  const sleep = { sleptMs: 1000 } // before any of them waited
  const tell = (what: string) => void told.push(`${clock.now() - began} ${what}`)
  const waiting: Waiting<Named> = new Waiting<Named>(clock, {
    onTurn(one) {
      tell(`turn ${one.name}`)
      waiting.delete(one)
    },
    onExpired: ({ name }, isLate) => tell(`${isLate ? 'late' : 'impatient'} ${name}`),
    sleep,
  })
  return { clock, began, told, sleep, waiting }
}

t.test('each has its turn at its time, or when there is an engine', async (t) => {
  const { clock, began, told, waiting } = made()
  waiting.add(item('later'), began + 300)
  waiting.add(item('new'))
  waiting.add(item('begun', { hasBegun: true }))
  waiting.add(item('sooner'), began + 100)
  await runUntilIdle(clock, began + 200)
  t.same(told, ['100 turn sooner'])
  waiting.retry()
  t.same(told.slice(1), ['200 turn begun', '200 turn new'], 'streams that have begun go first')
  await runUntilIdle(clock, began + 1000)
  t.same(told.slice(3), ['300 turn later'])
  waiting.retry()
  t.equal(told.length, 4)
})

t.test('what waits too long ends: for its limit, or for its patience', async (t) => {
  const { clock, began, told, sleep, waiting } = made()
  waiting.add(item('limited', { expiresAt: began + 50 }), undefined, 400)
  waiting.add(item('held', { expiresAt: began + 250 }), began + 900, 100)
  waiting.add(item('patient'), undefined, 400)
  const left = item('left', { expiresAt: began + 10 })
  waiting.add(left)
  waiting.delete(left)
  await runUntilIdle(clock, began + 300)
  t.same(told, ['50 late limited', '250 late held'], 'a router that holds it takes no patience')
  sleep.sleptMs += 500
  await runUntilIdle(clock, began + 2000)
  t.same(told.slice(2), ['900 impatient patient'], 'nobody could come while the process slept')
})

t.test('one that is held again keeps its patience', async (t) => {
  const { clock, began, told, waiting } = made()
  const one = item('one')
  waiting.add(one, undefined, 100)
  await runUntilIdle(clock, began + 60)
  waiting.add(one, undefined, 100)
  await runUntilIdle(clock, began + 1000)
  t.same(told, ['100 impatient one'])
})
