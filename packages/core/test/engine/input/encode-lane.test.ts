import type { GenerateRequest, SchedulerPolicy } from '@cllm/core'
import { firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import {
  type Answer,
  collect,
  greedy,
  leftovers,
  nothingLeft,
  promptOf,
  rig,
  type RigOptions,
  watching,
} from '../../rig.js'

const imageOf = (file: string) => ({ type: 'image' as const, at: 3, data: btoa(file) })
const shown = (file: string) => [{ role: 'user', content: 'See it', media: [imageOf(file)] }]

const asks = (files: string, more: Partial<GenerateRequest> = {}): GenerateRequest => {
  const media = files.split(' ').map(imageOf)
  const sampling = { temperature: 0, ignoreEos: true }
  return { prompt: { tokens: promptOf(6), media }, maxTokens: 2, sampling, ...more }
}

/** An engine whose encoder takes 100 ms a file, and what was asked of it at once. */
function lane(options: RigOptions = {}) {
  const made = rig({ images: true, slots: 8, ...options })
  const media = made.backend.media!
  media.encodeMs = 100
  const { client, clock, run } = made
  const submit = async (request: GenerateRequest): Promise<Answer> =>
    await collect(client.submit(request))
  const all = async (...requests: GenerateRequest[]) => await run(Promise.all(requests.map(submit)))
  return { ...made, encoded: media.encoded, submit, all, at: (ms: number) => clock.now() + ms }
}

/** Priorities first. */
const urgent: SchedulerPolicy = {
  ...firstComeFirstServed,
  arrivalRank: ({ priority }) => -priority,
}

t.test('files of a request that is cancelled are not encoded', async (t) => {
  const made = lane()
  const { client, clock, encoded, submit, run } = made
  const first = submit(asks('running waits', { id: 'first' }))
  const second = submit(asks('gone gone-too', { id: 'second' }))
  const third = submit(asks('third', { id: 'third' }))
  let endedAt = 0
  clock.at(1050, () => {
    client.cancel('second')
    client.cancel('first')
  })
  void first.then(() => (endedAt = clock.now()))
  const answers = await run(Promise.all([first, second, third]))
  t.same(
    answers.map(({ error }) => error?.code),
    ['cancelled', 'cancelled', undefined],
  )
  t.equal(endedAt, 1050, 'its client does not wait for what runs')
  t.same(encoded, ['running', 'third'])
  t.same(leftovers(made), nothingLeft)
})

t.test('an encode that nobody waits for is stopped when it takes too long', async (t) => {
  const made = lane()
  const { client, clock, encoded, submit, run, backend, engine } = made
  backend.media!.encodeMs = 60_000
  const began = clock.now()
  const asked = [
    submit(asks('stuck', { id: 'first' })),
    submit(asks('stuck', { id: 'same' })),
    submit(asks('next')),
  ]
  clock.at(began + 1000, () => client.cancel('first'))
  clock.at(began + 20_000, () => client.cancel('same'))
  clock.at(began + 19_999, () => (backend.media!.encodeMs = 100))
  const answers = await run(Promise.all(asked))
  t.same(
    answers.map(({ error }) => error?.code),
    ['cancelled', 'cancelled', undefined],
  )
  const took = clock.now() - began
  t.ok(
    took > 20_100 && took < 20_200,
    'the next waits while another has the same file, and then not',
  )
  t.same(encoded, ['stuck', 'next'])
  t.match(engine.statistics().encodes, { encoded: 1, failed: 1 })
  t.same(leftovers(made), nothingLeft)
})

t.test('who asks for the same file while it is stopped gets it', async (t) => {
  const { client, clock, encoded, submit, run, backend } = lane()
  Object.assign(backend.media!, { encodeMs: 60_000, stopMs: 2000 })
  const began = clock.now()
  const gone = submit(asks('stuck', { id: 'gone' }))
  clock.at(began + 1000, () => client.cancel('gone'))
  const again = new Promise((resolve) => {
    clock.at(began + 11_000, () => {
      backend.media!.encodeMs = 100
      resolve(submit(asks('stuck')))
    })
  })
  t.match(await run(gone), { error: { code: 'cancelled' } })
  t.equal(((await run(again)) as Awaited<typeof gone>).error, undefined)
  t.same(encoded, ['stuck', 'stuck'])
})

t.test('an encode that nobody waits for may take as long as its like', async (t) => {
  const made = lane()
  const { client, clock, encoded, submit, run, backend, all } = made
  backend.media!.encodeMs = 9000
  await all(asks('before'))
  const alone = submit(asks('behind', { id: 'gone' }))
  clock.at(clock.now() + 1000, () => client.cancel('gone'))
  t.match(await run(alone), { error: { code: 'cancelled' } })
  const began = clock.now()
  await all(asks('behind'))
  t.ok(clock.now() - began < 8200, 'it went on, and is kept')
  t.same(encoded, ['before', 'behind'])
  clock.at(clock.now() + 1000, () => client.cancel('stuck'))
  backend.media!.encodeMs = 600_000
  await run(submit(asks('stuck', { id: 'stuck' })))
  const left = clock.now()
  backend.media!.encodeMs = 100
  await all(asks('after'))
  const took = clock.now() - left
  t.ok(took > 20_000 && took < 36_000, `about four times as long, not ${took}`)
})

t.test('an encode that hangs is given up, soon where others were encoded', async (t) => {
  const { all, backend, clock, encoded } = lane()
  const hangs = async (file: string, after: number) => {
    backend.media!.encodeMs = Infinity
    const began = clock.now()
    const errors = (await all(asks(file), asks(file))).map(({ error }) => error)
    const expected = { code: 'backend_failed', message: new RegExp(`within ${after} s`) }
    t.match(errors, [expected, expected])
    t.equal(clock.now() - began, 1000 * after)
  }
  const works = async (file: string, ms: number) => {
    backend.media!.encodeMs = ms
    t.equal((await all(asks(file)))[0]?.error, undefined)
  }
  await hangs('first', 600)
  await works('short', 100)
  await hangs('stuck', 120)
  await hangs('again', 240)
  await works('all-slow', 400_000)
  await hangs('third', 600)
  t.same(encoded, ['first', 'short', 'stuck', 'again', 'all-slow', 'third'], 'each once')
})

t.test('many files of a request are no leak', async (t) => {
  const warnings: Error[] = []
  const warn = (warning: Error) => void warnings.push(warning)
  process.on('warning', warn)
  const { all, encoded } = lane()
  await all(asks('a b c d e f g h i j k l m'))
  process.off('warning', warn)
  t.equal(encoded.length, 13)
  t.same(warnings, [])
})

t.test('a file that cannot be encoded takes the others of its request along', async (t) => {
  const { all, encoded } = lane()
  const [whole, broken] = await all(asks('first'), asks('broken never'))
  t.match(broken?.error, { code: 'backend_failed' })
  t.equal(whole?.error, undefined)
  t.same(encoded, ['first', 'broken'])
})

t.test(
  'requests with the same broken file are told of their own, and leave together',
  async (t) => {
    const { encoded, run, client } = lane()
    const ask = async (field: string, files: string) => {
      const { prompt, ...more } = asks(files)
      const { media, ...rest } = prompt as Extract<typeof prompt, { tokens: unknown }>
      const named = media!.map((file) => ({ ...file, field }))
      return await collect(client.submit({ ...more, prompt: { ...rest, media: named } }))
    }
    const [one, other] = await run(
      Promise.all([ask('one', 'broken'), ask('other', 'broken never')]),
    )
    t.match(one?.error, { message: /^one: /, details: { field: 'one' } })
    t.match(other?.error, { message: /^other: /, details: { field: 'other' } })
    t.same(encoded, ['broken'])
  },
)

t.test('the policy says whose file is next, and starves none', async (t) => {
  const plain = lane()
  await plain.all(asks('a'), asks('b', { priority: 1 }), asks('c', { priority: 2 }))
  t.same(plain.encoded, ['a', 'b', 'c'], 'as they came')
  const made = lane({ policy: urgent })
  await made.all(asks('a'), asks('b', { priority: 1 }), asks('c', { priority: 2 }))
  t.same(made.encoded, ['a', 'c', 'b'])
  const names = Array.from({ length: 20 }, (_, nth) => `${nth}`)
  const busy = lane({ policy: urgent, slots: 32 })
  await busy.all(asks('x'), asks('least'), ...names.map((name) => asks(name, { priority: 1 })))
  t.equal(busy.encoded.indexOf('least'), 17)
  const faulty = lane({
    policy: {
      ...urgent,
      arrivalRank: () => {
        throw new Error('no rank')
      },
    },
  })
  await faulty.all(asks('a'), asks('b'))
  t.same(faulty.encoded, ['a', 'b'])
})

t.test(
  'a file that waits twice is encoded once, for each tenant where they are apart',
  async (t) => {
    const requests = ['one', 'one', 'other'].map((tenant) => asks('same', { tenant }))
    const shared = lane()
    await shared.all(asks('before'), ...requests)
    t.same(shared.encoded, ['before', 'same'])
    const apart = lane({ options: { isolateTenants: true } })
    await apart.all(asks('before'), ...requests)
    t.same(apart.encoded, ['before', 'same', 'same'])
    const render = async (tenant?: string) =>
      await apart.run(
        apart.client.applyTemplate(shown('same'), tenant === undefined ? {} : { tenant }),
      )
    await render('one')
    t.equal(apart.encoded.length, 3, 'counting tokens finds what is its own')
    await render()
    await render()
    t.equal(apart.encoded.length, 5, 'and nobody else')
  },
)

t.test('who waits for the encoder is told of, and pays for it', async (t) => {
  const charged: Record<string, number> = {}
  const fair: SchedulerPolicy = {
    ...firstComeFirstServed,
    arrivalRank: ({ tenant }) => charged[tenant] ?? 0,
    onServedElsewhere(services) {
      for (const { tenant, promptTokens } of services) {
        charged[tenant] = (charged[tenant] ?? 0) + promptTokens
      }
    },
  }
  const { all, client, clock, encoded } = lane({ policy: fair })
  await client.activity()
  const reports: Promise<unknown>[] = []
  clock.at(clock.now() + 150, () => {
    for (const id of ['many', 'few']) reports.push(client.explain(id))
    reports.push(client.activity())
  })
  await all(
    asks('a b c', { id: 'many', tenant: 'loud' }),
    asks('d', { id: 'few', tenant: 'quiet', session: 'talk' }),
  )
  t.same(encoded, ['a', 'd', 'b', 'c'])
  const { loud = 0, quiet = 0 } = charged
  t.ok(quiet > 1 && loud > 2 * quiet, `three times as long: ${loud} and ${quiet} tokens`)
  const [many, few, activity] = await Promise.all(reports)
  const encode = { encode: 100, encoder: 50 }
  const waited = { type: 'waited', atMs: 0, untilMs: 150 }
  t.match(many, {
    state: 'encoding',
    timings: { queueMs: 150 },
    timeline: [{ ...waited, reasons: encode }],
  })
  const encoder = { encode: 50, encoder: 100 }
  t.match(few, {
    state: 'encoding',
    tenant: 'quiet',
    session: 'talk',
    timeline: [{ reasons: encoder }],
  })
  const queue = [
    { id: 'many', state: 'encoding' },
    { id: 'few', reasons: encoder },
  ]
  t.match(activity, { waiting: 2, queue })
  t.match(await client.explain('few'), { state: 'done' })
})

t.test('the wait for the encoder is learnt, told and limited', async (t) => {
  const { all, engine, client, run } = lane({ options: { maxQueueWaitMs: 150 } })
  await all(asks('12345678'))
  const [, second, third] = await all(
    asks('12345679', { id: 'first' }),
    asks('12345670', { id: 'second', forecast: true }),
    asks('12345671', { id: 'third' }),
  )
  t.match(third?.error, {
    code: 'wait_too_long',
    message: /would wait 0\.2 s for/,
    details: { retryAfterMs: 50 },
  })
  t.equal(second?.error, undefined)
  const { timeline, forecast, timings } = await run(client.explain('second'))
  const reasons = { encoder: 100, encode: 100 }
  t.match(timeline[1], { type: 'waited', untilMs: timings.queueMs, reasons })
  t.ok(Math.abs(forecast!.firstTokenMs - timings.firstTokenMs) < 20, 'the forecast has it')
  const { encodes } = engine.statistics()
  const expected = { waiting: 0, waitMs: 0, encoded: 3, failed: 0, found: 0, encodeMs: 300 }
  t.same(encodes, { ...expected, queueMs: 100 })
  t.equal(rig().engine.statistics().encodes, undefined)
})

t.test('what is left out as it cannot be read was not kept before', async (t) => {
  const { all, engine } = lane()
  const files = ['a', 'bad', 'unreadable'].map((file) => ({ ...imageOf(file), otherwise: 'none' }))
  const request = { ...asks('a'), prompt: { tokens: promptOf(6), media: files } }
  for (const answer of await all(request)) t.equal(answer.error, undefined)
  t.match(engine.statistics().encodes, { encoded: 1, found: 0 })
  for (const answer of await all(request)) t.equal(answer.error, undefined)
  t.match(engine.statistics().encodes, { encoded: 1, found: 1 })
})

t.test('a file that cannot be read takes no other one of its request along', async (t) => {
  const { all, encoded } = lane()
  const unreadable = { ...imageOf('unreadable'), otherwise: 'none' }
  const media = [unreadable, { ...imageOf('b'), otherwise: 'none' }, imageOf('c')]
  const request = { ...asks('a'), prompt: { tokens: promptOf(6), media } }
  for (const answer of await all(request, request)) t.equal(answer.error, undefined)
  t.same(encoded, ['unreadable', 'b', 'c'])
})

t.test('conversations with images are rendered up to as many as may queue', async (t) => {
  const { client, run, encoded } = lane({ slots: 1, options: { maxQueuedRequests: 2 } })
  const render = async (file: string) => await client.applyTemplate(shown(file))
  const asked = await run(Promise.allSettled(['a', 'b', 'c', 'd'].map(render)))
  t.match(asked.pop(), { reason: { code: 'queue_full', details: { limit: 2 } } })
  t.same(encoded, ['a', 'b', 'c'], 'as many as there would be requests')
  await run(render('e'))
})

t.test('the time limit of a request ends its wait for the encoder', async (t) => {
  const made = lane()
  const { all, encoded, client, clock, run } = made
  const began = clock.now()
  const submit = async (name: string, more: object = {}) => {
    const answer = await collect(client.submit(asks(name, more)))
    return { ...answer, afterMs: clock.now() - began }
  }
  const asked = [submit('first'), submit('second'), submit('late', { timeoutMs: 150 })]
  const late = (await run(Promise.all(asked))).at(-1)
  t.match(late, { error: { code: 'timeout' }, afterMs: 150 })
  const [soon] = await all(asks('first', { timeoutMs: 1000 }))
  t.equal(soon?.error, undefined)
  t.same(encoded, ['first', 'second'])
  t.same(leftovers(made), nothingLeft)
})

t.test('a file that many have waits once', async (t) => {
  const { all } = lane({ options: { maxQueueWaitMs: 150 } })
  await all(asks('first'))
  const many = await all(...Array.from({ length: 6 }, () => asks('second')))
  t.same(many.map(({ error }) => error).filter(Boolean), [])
})

/** A request with this many tokens before its file. */
const told = (count: number, file: string, more: Partial<GenerateRequest> = {}) => {
  const media = [{ ...imageOf(file), at: count, field: 'messages.0' }]
  return asks('', { prompt: { tokens: promptOf(count + 6), media }, ...more })
}

t.test('text before a file is computed while that is encoded, and no slot waits', async (t) => {
  const { seen, policy } = watching()
  const made = lane({ slots: 1, policy, options: { policyPatienceMs: 200 } })
  const { client, clock, backend, submit, run, encoded } = made
  backend.media!.encodeMs = 1000
  const request = told(100, 'a cat', { id: 'seen', progress: true, forecast: true })
  const first = submit(request)
  const other = new Promise<Answer>((resolve) => {
    clock.at(clock.now() + 500, () => resolve(submit(greedy(promptOf(8, 3), 3))))
  })
  const reports: Promise<unknown>[] = []
  clock.at(clock.now() + 400, () => reports.push(client.explain('seen')))
  const [answer, beside] = await run(Promise.all([first, other]))
  const { usage, timings } = answer.end!
  const whole = await lane().all(asks('a cat'), { ...request, id: 'late' })
  t.same(answer.tokens, whole[1]!.tokens)
  t.match(usage, { promptTokens: 111, cachedTokens: 0 })
  t.equal(backend.steps[0]?.batch[0]?.tokens.length, 100, 'it ends before the file')
  t.ok(timings.firstTokenMs < 1040, `${timings.firstTokenMs} ms`)
  t.equal(beside.end?.timings.firstTokenMs, 10, 'others are not held')
  t.same(
    answer.events.slice(0, 3).map(({ type }) => type),
    ['start', 'progress', 'progress'],
  )
  const [start] = answer.events
  const { firstTokenMs = 0 } = (start?.type === 'start' && start.forecast) || {}
  t.ok(firstTokenMs > 40, `the forecast has the encoding: ${firstTokenMs} ms`)
  t.ok(seen.every(({ waiting }) => waiting.length === 0 || waiting.length === 1))
  const idle = seen.filter(({ now }) => now > 1100 && now < 1500)
  t.same(idle, [], 'its policy is not asked while there is nothing to compute')
  t.equal(made.engine.scheduler().fallback, undefined)
  const wait = { type: 'waited', reasons: { encode: 390 } }
  t.match(await reports[0], { state: 'encoding', timeline: [{}, {}, {}, wait] })
  t.equal(timings.preemptions + made.engine.statistics().preemptions, 0, 'nobody took its slot')
  t.same(encoded, ['a cat'])
  t.same(leftovers(made), nothingLeft)
})

t.test(
  'an encoder that throws at once, and not by its promise, is told of as others are',
  async (t) => {
    const { all, backend } = lane()
    backend.media!.prepare = () => {
      throw new Error('no such format')
    }
    const [answer] = await all(told(100, 'a cat'))
    t.match(answer, { error: { message: /^messages\.0: .*no such format$/ }, events: [] })
  },
)

t.test('a slot may come to have more than the text before a file', async (t) => {
  const { backend, clock, submit, run } = lane({ slots: 1 })
  const media = backend.media!
  const prepare = media.prepare.bind(media)
  // As if no encoding had room in memory.
  media.prepare = async (file) => await prepare(file, undefined)
  const began = clock.now()
  const busy = submit(greedy(promptOf(8, 3), 60))
  const first = submit(told(100, 'a cat'))
  const second = new Promise<Answer>((resolve) => {
    clock.at(began + 200, () => {
      media.encodeMs = 5000
      resolve(submit(told(100, 'a cat')))
    })
  })
  const [, one, other] = await run(Promise.all([busy, first, second]))
  t.same(other.tokens, one.tokens)
  t.equal(other.error, undefined)
  const lengths = backend.steps.flatMap(({ batch }) => batch.map(({ tokens }) => tokens.length))
  t.ok(Math.min(...lengths) > 0)
})

t.test(
  'what ends a request while its file is encoded ends it at once, or as its answer',
  async (t) => {
    const made = lane({ slots: 2 })
    const { all, client, clock, submit, run, backend, encoded } = made
    const [broken] = await all(told(100, 'broken'))
    const why = { code: 'backend_failed', message: /^messages\.0: / }
    t.match(broken, { error: why, events: [] }, 'the error is the answer')
    t.equal(backend.steps.length, 1, 'its text was computed')
    const [again] = await all(told(100, 'fine', { timeoutMs: 50 }))
    t.match(again, { error: { code: 'timeout' }, events: [] })
    backend.media!.encodeMs = 60_000
    const began = clock.now()
    const gone = submit(told(100, 'hangs', { id: 'gone' }))
    clock.at(began + 20_000, () => client.cancel('gone'))
    t.match(await run(gone), { error: { code: 'cancelled' } })
    backend.media!.encodeMs = 100
    const [next] = await all(told(100, 'next'))
    t.equal(next?.end?.usage.cachedTokens, 100, 'the text is still there')
    t.ok(clock.now() - began < 20_300, 'and its encoding, which nobody waits for')
    t.same(encoded, ['broken', 'fine', 'hangs', 'next'])
    t.same(leftovers(made), nothingLeft)
    const closing = submit(told(100, 'closed'))
    clock.at(clock.now() + 50, () => void client.close())
    t.match(await run(closing), { error: { code: 'shutting_down' } })
  },
)
