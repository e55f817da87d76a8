import {
  CllmError,
  type Plan,
  type SchedulerEvent,
  type SchedulerPolicy,
  type SchedulerState,
  type SequenceView,
} from '@cllm/core'
import { runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import {
  collect,
  empty,
  expectedTokens,
  greedy,
  isDone,
  loggerOf,
  policyOf,
  promptOf,
  rig,
} from '../../rig.js'

t.test('a policy that waits is called again at its time', async (t) => {
  const calls: number[] = []
  const policy = policyOf((state) => {
    calls.push(state.now)
    return state.now < 1055
      ? { ...empty, wakeAt: state.now + 25 }
      : firstComeFirstServed.plan(state)
  })
  const made = rig({ policy })
  const { clock, client, run } = made
  const answer = collect(client.submit(greedy([5], 1)))
  await runUntilIdle(clock, 1060)
  t.same(calls, [1000, 1025, 1050])
  const second = collect(client.submit(greedy([6], 1)))
  t.equal((await run(second)).end?.timings.firstTokenMs, 10, 'or when something happens before')
  t.equal((await run(answer)).end?.timings.queueMs, 60)
  t.same(calls, [1000, 1025, 1050, 1060])
  await isDone(t, made)
})

t.test('paused, preempted and rejected', async (t) => {
  const events: [string, string, number][] = []
  let step = 0
  const policy = policyOf(
    (state) => {
      step++
      if (step === 4)
        return {
          ...firstComeFirstServed.plan(state),
          preempt: ['a'],
          run: [{ id: 'b', tokens: 1 }],
        }
      if (step === 5) return { ...empty, admit: ['a'], run: [{ id: 'a', tokens: 3 }] }
      if (step === 6) return { ...empty, run: [{ id: 'a', tokens: 100 }] }
      if (step === 7) {
        const reject = [...state.waiting].map(({ id }) => ({ id, reason: 'no room for you' }))
        return { ...firstComeFirstServed.plan(state), admit: [], reject }
      }
      return firstComeFirstServed.plan(state)
    },
    (event) => {
      if (event.type !== 'step') events.push([event.type, event.request.id, event.now])
    },
  )
  const made = rig({ slots: 2, policy })
  const { client, clock, run, backend, engine } = made
  const a = collect(client.submit({ ...greedy(promptOf(9), 9), id: 'a' }))
  const b = collect(client.submit({ ...greedy(promptOf(9, 1), 9), id: 'b' }))
  await runUntilIdle(clock, 1055)
  const c = collect(client.submit({ ...greedy(promptOf(9, 2), 9), id: 'c', cache: false }))
  const answers = await run(Promise.all([a, b, c]))
  t.same(answers[0]?.tokens, expectedTokens(backend, promptOf(9), 9))
  t.same(answers[1]?.tokens, expectedTokens(backend, promptOf(9, 1), 9))
  t.match(answers[2]?.error, { code: 'rejected', status: 503, message: 'no room for you' })
  t.equal(answers[0]?.end?.usage.cachedTokens, 0, 'finding its own tokens again is no hit')
  t.equal(engine.statistics().preemptions, 1)
  t.same(events, [
    ['queued', 'a', 1000],
    ['queued', 'b', 1000],
    ['admitted', 'a', 1000],
    ['admitted', 'b', 1000],
    ['preempted', 'a', 1030],
    ['admitted', 'a', 1040],
    ['queued', 'c', 1055],
    ['finished', 'c', 1060],
    ['finished', 'a', events[8]?.[2]],
    ['finished', 'b', events[9]?.[2]],
  ])
  await isDone(t, made)
})

t.test('rejected one by one, and asked for more than they have left', async (t) => {
  const policy = policyOf((state) => {
    const [first, ...others] = state.waiting
    if (first !== undefined && others.length > 1) {
      return { ...empty, reject: [{ id: first.id, reason: 'too many' }] }
    }
    const plan = firstComeFirstServed.plan(state)
    return { ...plan, run: plan.run.map(({ id }) => ({ id, tokens: 1000 })) }
  })
  const made = rig({ policy, batchSize: 16 })
  const { client, run, backend } = made
  const prompts = [1, 2, 3, 4].map((family) => promptOf(8, family))
  const answers = await run(
    Promise.all(prompts.map((prompt) => collect(client.submit(greedy(prompt, 3))))),
  )
  t.same(
    answers.map(({ error }) => error?.code),
    ['rejected', 'rejected', undefined, undefined],
  )
  t.equal(backend.steps.length, 3, '8 + 8 fit into 16')
  await isDone(t, made)
})

const entry = (id: string, tokens = 1) => ({ id, tokens })
const wrongPlans: [RegExp, (state: SchedulerState) => unknown][] = [
  [/"nobody"/, () => ({ ...empty, admit: ['nobody'] })],
  [/"running"/, () => ({ ...empty, admit: ['running'] })],
  [/"nobody"/, () => ({ ...empty, reject: [{ id: 'nobody', reason: '' }] })],
  [/"waiting".*twice/, () => ({ ...empty, admit: ['waiting', 'waiting'] })],
  [
    /"waiting".*twice/,
    () => ({
      ...empty,
      admit: ['waiting'],
      reject: [{ id: 'waiting', reason: '' }],
    }),
  ],
  [/preempt.*"waiting"/, () => ({ ...empty, preempt: ['waiting'] })],
  [/2 requests to 1 free/, () => ({ ...empty, admit: ['waiting', 'other'] })],
  [/run.*"waiting"/, () => ({ ...empty, run: [entry('waiting')] })],
  [/run.*"nobody"/, () => ({ ...empty, run: [entry('nobody')] })],
  [/run.*"running"/, () => ({ ...empty, preempt: ['running'], run: [entry('running')] })],
  [/"running" runs twice/, () => ({ ...empty, run: [entry('running'), entry('running')] })],
  ...[0, -1, 1.5, NaN].map((tokens): (typeof wrongPlans)[number] => [
    new RegExp(`instead got ${tokens}`),
    () => ({ ...empty, run: [entry('running', tokens)] }),
  ]),
  [
    /step group/,
    () => ({ ...empty, admit: ['grouped'], run: [entry('running'), entry('grouped')] }),
  ],
  [
    /17 tokens, a step takes 16/,
    () => ({
      ...empty,
      admit: ['waiting'],
      run: [entry('running'), entry('waiting', 16)],
    }),
  ],
  [/no later time/, () => empty],
  [/no later time/, (state) => ({ ...empty, wakeAt: state.now })],
  [/wakeAt.*NaN/, () => ({ ...empty, run: [entry('running')], wakeAt: NaN })],
  [/wakeAt.*Infinity/, () => ({ ...empty, wakeAt: Infinity })],
  [/lists/, () => ({})],
  [/lists/, () => ({ ...empty, run: 'all' })],
  [/lists/, () => undefined],
  [/expects an id/, () => ({ ...empty, run: [null] })],
  [/expects an id/, () => ({ ...empty, reject: [{}] })],
  [
    /Error: cannot think/,
    () => {
      throw new Error('cannot think')
    },
  ],
  [
    /mine/,
    () => {
      throw new CllmError('rejected', 'mine')
    },
  ],
]

t.test('wrong plans', async (t) => {
  for (const [message, wrong] of wrongPlans) {
    let isWrong = false
    const policy = policyOf((state) => {
      if (isWrong) return wrong(state) as Plan
      const run = [...state.running].map(({ id }) => entry(id))
      return state.running.length > 0 ? { ...empty, run } : firstComeFirstServed.plan(state)
    })
    const { errors, logger } = loggerOf()
    const made = rig({ slots: 2, batchSize: 16, policy, logger })
    const { client, clock, run } = made
    const requests = ['running', 'waiting', 'other', 'grouped'].map((id) => {
      const group = id === 'grouped' ? { stepGroup: 'lora' } : {}
      return { ...greedy(promptOf(id === 'running' ? 3 : 30), 60), id, ...group }
    })
    const [first, ...others] = requests
    if (first === undefined) throw new Error('unreachable')
    const answers = [collect(client.submit(first))]
    await runUntilIdle(clock, 1015)
    answers.push(...others.map((request) => collect(client.submit(request))))
    await runUntilIdle(clock, 1025)
    isWrong = true
    for (const { error, events } of await run(Promise.all(answers))) {
      t.match(error, { code: 'policy_failed', details: { policy: 'tested' }, message })
      t.match(error?.message, /"tested"/)
      t.equal(events[0]?.type, 'start')
    }
    t.match(errors, [{ message }], 'it is logged once')
    await isDone(t, made)
    isWrong = false
    t.equal((await made.ask(greedy([5], 2))).tokens.length, 2, 'and the engine goes on')
  }
})

t.test('with a fallback, a policy that fails is replaced and no request is lost', async (t) => {
  const entry = (id: string) => ({ id, tokens: 1 })
  const failures: typeof wrongPlans = [
    ...wrongPlans.filter(([message]) => !message.source.includes('group')),
    [/run no request for too long/, (state) => ({ ...empty, wakeAt: state.now + 100 })],
    [/run no request for too long/, () => ({ ...empty, wakeAt: 1e12 })],
  ]
  for (const [message, wrong] of failures) {
    let isWrong = false
    const policy = policyOf((state) => {
      if (isWrong) return wrong(state) as Plan
      const run = [...state.running].map(({ id }) => entry(id))
      return state.running.length > 0 ? { ...empty, run } : firstComeFirstServed.plan(state)
    })
    const { errors, logger } = loggerOf()
    const told: string[] = []
    const fallbackPolicy = () => ({
      name: 'safe',
      plan: (state: SchedulerState) => firstComeFirstServed.plan(state),
      observe: (event: SchedulerEvent) => {
        if (event.type !== 'step') told.push(`${event.type} ${event.request.id}`)
      },
    })
    const made = rig({ slots: 2, batchSize: 16, policy, logger, fallbackPolicy })
    const { client, clock, run, backend, engine } = made
    const ids = ['running', 'waiting', 'other', 'grouped']
    const prompts = ids.map((id, index) => promptOf(id === 'running' ? 3 : 30, index))
    const submit = (index: number) =>
      collect(client.submit({ ...greedy(prompts[index] ?? [], 20), id: ids[index] ?? '' }))
    const answers = [submit(0)]
    await runUntilIdle(clock, 1015)
    answers.push(submit(1), submit(2), submit(3))
    await runUntilIdle(clock, 1025)
    isWrong = true
    for (const [index, { tokens }] of (await run(Promise.all(answers))).entries()) {
      t.same(tokens, expectedTokens(backend, prompts[index] ?? [], 20))
    }
    t.match(errors, [{ message, fields: { policy: 'tested', fallback: 'safe' } }])
    t.equal(errors.length, 1)
    t.match(engine.scheduler(), {
      policy: { name: 'safe' },
      fallback: { from: 'tested', reason: message },
    })
    t.equal(engine.statistics().policyFaults, 1)
    t.same(told.slice(0, 4), [
      'admitted running',
      'queued waiting',
      'queued other',
      'queued grouped',
    ])
    isWrong = false
    engine.setPolicy(policy)
    t.match(engine.scheduler(), { policy: { name: 'tested' }, fallback: undefined })
    await isDone(t, made)
  }

  t.test('also when it throws on an event, and not twice', async (t) => {
    const { errors, logger } = loggerOf()
    const broken = policyOf(
      (state) => firstComeFirstServed.plan(state),
      () => {
        throw new Error('deaf')
      },
    )
    const made = rig({ policy: broken, logger, fallbackPolicy: () => policyOf(() => empty) })
    const { error } = await made.ask(greedy([5], 2))
    t.match(error, { code: 'policy_failed', message: /no later time/ }, 'the fallback fails too')
    t.match(errors, [
      { message: /threw in observe on the event "queued": Error: deaf; tested takes over/ },
      {},
    ])
    await isDone(t, made)
  })

  t.test('a fallback that throws on what it is told first plans all the same', async (t) => {
    const { errors, logger } = loggerOf()
    const broken = policyOf(() => empty)
    const deaf = policyOf(
      (state) => firstComeFirstServed.plan(state),
      () => {
        throw new Error('deaf')
      },
    )
    const made = rig({ policy: broken, logger, fallbackPolicy: () => deaf })
    t.equal((await made.ask(greedy([5], 2))).tokens.length, 2)
    t.equal((await made.ask(greedy([6], 2))).tokens.length, 2)
    const call = 'observe on the event "queued"'
    t.match(errors[1], { fields: { call, error: 'Error: deaf' } })
    await isDone(t, made)
  })

  t.test('waiting within its patience is no failure', async (t) => {
    const slow = policyOf((state) => {
      const [first] = state.waiting
      if (first === undefined || state.now - first.arrival >= 900)
        return firstComeFirstServed.plan(state)
      return { ...empty, wakeAt: state.now + 90 }
    })
    const options = { policyPatienceMs: 1000 }
    const made = rig({ policy: slow, options, fallbackPolicy: () => firstComeFirstServed })
    for (const _ of [1, 2, 3]) {
      t.equal((await made.ask(greedy([5], 2))).end?.timings.queueMs, 900)
    }
    t.equal(made.engine.statistics().policyFaults, 0)
  })

  t.test('clients that give up do not make it patient for ever', async (t) => {
    const never = policyOf((state) => ({ ...empty, wakeAt: state.now + 1e6 }))
    const options = { policyPatienceMs: 1000 }
    const made = rig({ policy: never, options, fallbackPolicy: () => firstComeFirstServed })
    const ask = async () => (await made.ask({ ...greedy([5], 2), timeoutMs: 400 })).error?.code
    t.same([await ask(), await ask(), await ask()], ['timeout', 'timeout', undefined])
  })
})

t.test('a policy that throws on events can still plan', async (t) => {
  const { errors, logger } = loggerOf()
  const policy = policyOf(
    (state) => firstComeFirstServed.plan(state),
    ({ type }) => {
      throw new Error(`${type}?`)
    },
  )
  const made = rig({ policy, logger })
  t.equal((await made.ask(greedy([5], 2))).tokens.length, 2)
  t.same(
    errors.map(({ fields }) => fields),
    ['queued', 'admitted', 'step', 'step', 'finished'].map((event) => ({
      policy: 'tested',
      call: `observe on the event "${event}"`,
      error: `Error: ${event}?`,
    })),
  )
})

t.test('a policy that is async after all is replaced, and ends nothing else', async (t) => {
  const broken = () => Promise.reject(new Error('late')) as never
  const wrong: [RegExp, SchedulerPolicy][] = [
    [/plan returned a promise/, policyOf(broken)],
    [
      /on the event "queued": Error: late/,
      policyOf((state) => firstComeFirstServed.plan(state), broken),
    ],
  ]
  for (const [message, policy] of wrong) {
    const { errors, logger } = loggerOf()
    const made = rig({ policy, logger, fallbackPolicy: () => firstComeFirstServed })
    t.equal((await made.ask(greedy([5], 2))).tokens.length, 2)
    t.equal((await made.ask(greedy([6], 2))).tokens.length, 2)
    t.match(errors, [{ message }])
    t.equal(errors.length, 1)
    t.equal(made.engine.statistics().policyFaults, 1)
    await isDone(t, made)
  }
})

t.test('what a policy takes out of its list of those that run is not lost', async (t) => {
  const policy = policyOf((state) => {
    const plan = firstComeFirstServed.plan(state)
    const running = state.running as SequenceView[]
    running.reverse()
    running.pop()
    return plan
  })
  const made = rig({ policy })
  const { client, run, backend } = made
  const prompts = [1, 2, 3].map((family) => promptOf(8, family))
  const answers = await run(
    Promise.all(prompts.map((prompt, index) => collect(client.submit(greedy(prompt, 3 + index))))),
  )
  for (const [index, { tokens }] of answers.entries()) {
    t.same(tokens, expectedTokens(backend, prompts[index]!, 3 + index))
  }
  await isDone(t, made)
})

t.test('what a policy is told of a step', async (t) => {
  const steps: (SchedulerEvent & { type: 'step' })[] = []
  const policy = policyOf(
    (state) => firstComeFirstServed.plan(state),
    (event) => {
      if (event.type === 'step') steps.push(event)
    },
  )
  const made = rig({ policy, batchSize: 16, stepMs: (batch) => 5 * batch.length })
  const { client, clock, run } = made
  const first = collect(client.submit(greedy(promptOf(20), 3)))
  await runUntilIdle(clock, 1006)
  const second = collect(client.submit(greedy(promptOf(5, 1), 2)))
  await run(Promise.all([first, second]))
  const facts = steps.map(({ now, durationMs, prefillTokens, decodeSequences, parts }) => [
    now,
    durationMs,
    prefillTokens,
    decodeSequences,
    parts.map(({ tokens }) => tokens),
  ])
  t.same(facts, [
    [1005, 5, 16, 0, [16]],
    [1010, 5, 4, 0, [4]],
    [1020, 10, 5, 1, [1, 5]],
    [1030, 10, 0, 2, [1, 1]],
  ])
})

t.test('the policy can be swapped, losing nothing', async (t) => {
  const made = rig({ slots: 1 })
  const { client, clock, run, engine, backend } = made
  const answers = [0, 1].map((n) =>
    collect(client.submit({ ...greedy(promptOf(9, n), 6), id: `r${n}` })),
  )
  await runUntilIdle(clock, 1025)
  const told: string[] = []
  const next = policyOf(
    (state) => ({ ...firstComeFirstServed.plan(state), wakeAt: state.now + 1 }),
    (event) => void told.push(event.type === 'step' ? 'step' : `${event.type} ${event.request.id}`),
  )
  engine.setPolicy(next)
  t.equal(engine.scheduler().policy, next)
  t.same(told, ['admitted r0', 'queued r1'])
  const all = await run(Promise.all(answers))
  for (const [n, { tokens }] of all.entries()) {
    t.same(tokens, expectedTokens(backend, promptOf(9, n), 6))
  }
  t.match(told.slice(-1), ['finished r1'])

  const stuck = rig({ policy: policyOf(() => ({ ...empty, wakeAt: 1e9 })) })
  const answer = collect(stuck.client.submit(greedy([5], 2)))
  await runUntilIdle(stuck.clock, 2000)
  stuck.engine.setPolicy(firstComeFirstServed)
  t.equal((await stuck.run(answer)).end?.timings.firstTokenMs, 1010, 'it wakes a sleeping engine')
  t.equal(stuck.clock.nextTimer(), undefined, 'which forgets when it wanted to wake')
})
