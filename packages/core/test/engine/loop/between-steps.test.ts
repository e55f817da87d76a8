import { CllmError, SimulatedClock } from '@cllm/core'
import t from 'tap'
import { BetweenSteps, type LoopWork } from '../../../src/engine/loop/between-steps.js'

const made = () => {
  const between = new BetweenSteps(new SimulatedClock(0))
  const told: string[] = []
  const work = (name: string, more: LoopWork = {}): LoopWork => ({
    close: ({ code }) => void told.push(`${name} closed: ${code}`),
    ...more,
  })
  return { between, told, work }
}

t.test('work that is due is done in the order in which it was added', async (t) => {
  const { between, told } = made()
  t.equal(between.isDue, false)
  let isDue = true
  const first = { settle: async () => void told.push('first') }
  const second = {
    get isDue() {
      return isDue
    },
    settle: async () => {
      isDue = false
      told.push('second')
    },
  }
  for (const one of [first, second, second]) between.add(one)
  t.equal(between.isDue, true)
  await between.settle()
  t.same(told, ['second'], 'once, and only what is due')
  t.equal(between.isDue, false)
})

t.test(
  'a step waits for what makes ready, then for what pauses, and nothing without',
  async (t) => {
    t.equal(made().between.beforeStep(), undefined)
    const { between, told, work } = made()
    const tell = (what: string) => async () => void told.push(what)
    between.add(work('a', { beforeStep: tell('a ready'), pause: tell('a pauses') }))
    between.add(
      work('b', { beforeStep: tell('b ready'), resume: () => void told.push('b resumes') }),
    )
    await between.beforeStep()
    t.same(told.splice(0), ['a ready', 'b ready', 'a pauses'])
    const failing = between.alone(async () => {
      told.push('step')
      throw new RangeError('step')
    })
    await t.rejects(failing, { message: 'step' })
    t.same(told, ['a pauses', 'step', 'b resumes'])
  },
)

t.test('where one cannot be paused, the others go on', async (t) => {
  const { between, told, work } = made()
  between.add(work('a', { pause: async () => await Promise.reject(new RangeError('busy')) }))
  between.add(work('b', { resume: () => void told.push('b resumes') }))
  await t.rejects(
    between.alone(async () => void told.push('step')),
    { message: 'busy' },
  )
  t.same(told.splice(0), ['b resumes'])
  await t.rejects(between.beforeStep()!, { message: 'busy' })
  t.same(told, ['b resumes'])
})

t.test('what begins during a step is paused until it is over', async (t) => {
  const { between, told, work } = made()
  let end = (): void => {}
  const step = between.alone(() => new Promise<void>((resolve) => (end = resolve)))
  const pause = (): undefined => void told.push('paused')
  between.add(work('late', { pause, resume: () => void told.push('resumed') }))
  t.same(told, ['paused'])
  end()
  await step
  t.same(told, ['paused', 'resumed'])
})

t.test(
  'idle time ends when the first has more to do, and a closed engine takes nothing',
  async (t) => {
    const { between, told, work } = made()
    t.equal(await between.onIdle(), Infinity)
    between.add(work('a', { onIdle: async () => 30 }))
    between.add(
      work('b', { onIdle: async () => 20, onClose: async () => void told.push('b gone') }),
    )
    between.add(work('c', { onIdle: async () => undefined, isBusy: true }))
    t.same([await between.onIdle(), between.isBusy], [20, true])
    const error = new CllmError('shutting_down', 'bye')
    between.close(error)
    await between.onClose(error)
    const closed = ['a', 'b', 'c'].map((name) => `${name} closed: shutting_down`)
    t.same(told, [...closed, 'b gone'])
    t.throws(() => between.add(work('late')), error)
  },
)
