import { type RouterDefinition, defineRouter, type Placement, nextNumber } from '@cllm/core'
import { testRouter } from '@cllm/testing'
import {
  blocksOfText,
  blocksOfTokens,
  createPolicy,
  createRouter,
  LoadMeter,
  routers,
  WorkerTable,
} from '@cllm/scheduler'
import {
  builtInMachines,
  type MachineModel,
  simulateLoad,
  type SimulationOptions,
  slower,
} from '@cllm/simulation'
import t from 'tap'
import { failuresOf } from './failures-of.js'

/** Routers that do not look at how busy a worker is, or not at its files. */
const blind = new Set(['round-robin'])
const blindToFiles = new Set([...blind, 'cache_aware', 'kv'])

for (const router of routers) {
  const { name } = router
  const looks = { leavesBusyWorkers: !blind.has(name), countsFiles: !blindToFiles.has(name) }
  await testRouter(t, router, looks)
}

t.test('the suite finds what is wrong with a router', async (t) => {
  const broken = (name: string, place: ReturnType<RouterDefinition['create']>['place']) =>
    defineRouter({ name, doc: 'Broken.', create: () => ({ place }) })
  let turn = 0
  const usual = createRouter('least-wait')
  const defects = [
    broken('slow', (request, workers, now) => {
      const end = performance.now() + (6 * workers.length) / 1000
      while (performance.now() < end) continue
      return usual.place(request, workers, now)
    }),
    broken('unknown', () => ({ worker: 'nobody' })),
    broken('first', (_, [one]) => ({ worker: one!.id })),
    broken('moody', (_, workers) => ({ worker: workers[(turn++ % 7) % workers.length]!.id })),
    broken('never', () => ({ holdMs: 10 })),
    broken('long', (request, workers, now) =>
      workers.every(({ open }) => open > 0) ? { holdMs: 1e9 } : usual.place(request, workers, now),
    ),
    broken('silent', () => ({ refuse: '' })),
    broken('undefined', () => undefined as never),
    broken('async', () => Promise.reject(new Error('late')) as never),
    broken('fewest requests', (_, workers) => {
      const least = Math.min(...workers.map(({ open }) => open))
      return { worker: workers.find(({ open }) => open === least)!.id }
    }),
    broken('without a word', (_, workers) => {
      const idle = workers.find(({ open }) => open === 0)
      return idle === undefined ? ({} as Placement) : { worker: idle.id }
    }),
    broken('sorting', (_, workers) => {
      const [one] = (workers as unknown as { open: number; id: string }[]).sort(
        (a, b) => a.open - b.open,
      )
      return { worker: one!.id }
    }),
  ]
  for (const defect of defects) {
    const failures = await failuresOf(
      async (t) => await testRouter(t, defect, { countsFiles: true }),
      /./,
    )
    t.ok(failures.length > 0, `${defect.name}: ${failures[0]}`)
    const known = {
      long: /held for 1000000000 ms, all are idle in/,
      slow: /it takes [\d.]+ ms/,
      undefined: /place: expected .* got undefined/,
      async: /place returned a promise/,
    }
    t.match(failures[0], known[defect.name as keyof typeof known] ?? /./)
  }
})

t.test('blocks of a prompt are those of every prompt that begins with it', (t) => {
  const text = 'abcdefgh'.repeat(200)
  const short = blocksOfText(text.slice(0, 800), 0.25)
  const long = blocksOfText(text, 0.25)
  t.equal(short.blockTokens, 64)
  t.same([short.blocks.length, long.blocks.length], [3, 6])
  t.same(long.blocks.slice(0, 3), short.blocks)
  t.notSame(blocksOfText(text, 0.25, 'tenant').blocks, long.blocks)
  const tokens = Array.from({ length: 200 }, (_, index) => index)
  t.same(blocksOfTokens(tokens).blocks.slice(0, 1), blocksOfTokens(tokens.slice(0, 64)).blocks)
  t.end()
})

const request = (id: string, blocks: readonly number[]) => ({
  id,
  tenant: '',
  session: undefined,
  priority: 0,
  maxTokens: 10,
  moves: 0,
  promptTokens: blocks.length * 64,
  blocks,
  blockTokens: 64,
  files: [] as readonly number[],
})

t.test('a front counts what it has placed until the worker has seen it', (t) => {
  const table = new WorkerTable('front')
  const meter = new LoadMeter(4)
  table.set('w', meter.report(0), 0)
  const one = request('1', [1, 2, 3])
  const number = table.place('w', one, 0)
  const openOf = () => table.views(request('2', [1, 2, 4]), 0)[0]!
  t.match(openOf(), { open: 1, backlogTokens: 192, cachedTokens: 128, placedAt: 0 })
  table.set('w', meter.report(5), 5)
  t.match(openOf(), { open: 1, backlogTokens: 192, cachedTokens: 128 }, 'an old report')
  meter.onPlaced(one, 'front', number, 6)
  table.set('w', meter.report(6), 6)
  t.match(openOf(), { open: 1, backlogTokens: 192, cachedTokens: 128 }, 'it is in the report')
  meter.onEvent('1', { type: 'start', id: '1', promptTokens: 192 }, 7)
  const part = { processedTokens: 64, cachedTokens: 0, promptTokens: 192 }
  t.equal(meter.onEvent('1', { type: 'progress', text: '', ...part }, 9), false)
  t.equal(meter.report(9).open, 1, 'a part of a prompt ends nothing')
  meter.onEvent('1', { type: 'token', token: 1, text: '' }, 390)
  table.set('w', meter.report(391), 391)
  const view = openOf()
  t.match(view, { open: 1, backlogTokens: 0, cachedTokens: 128, placedAt: 6 })
  t.ok(view.tokenMs > 1.9 && view.tokenMs < 2.4, `a token took 2 ms: ${view.tokenMs}`)
  table.end('w', 192)
  t.match(openOf(), { open: 0, openTokens: 0 }, 'its slot is free before a report says so')
  table.end('w', 192)
  t.match(openOf(), { open: 0, openTokens: 0 }, 'never less than none')
  table.set('w', meter.report(392), 392)
  t.match(openOf(), { open: 1, openTokens: 192 }, 'the next report counts')
  table.end('nobody', 1)
  table.setEligible('w', false)
  t.same(table.views(one, 400), [])
  t.end()
})

t.test('what encoding its images takes is no time of a prompt', (t) => {
  const meter = new LoadMeter(4)
  const place = (id: string, blocks: readonly number[], now: number) =>
    meter.onPlaced(request(id, blocks), 'front', 1, now)
  place('text', [1, 2, 3], 0)
  meter.onEvent('text', { type: 'start', id: 'text', promptTokens: 192 }, 0)
  place('image', [7, 8, 9], 0)
  meter.onEvent('text', { type: 'token', token: 1, text: '' }, 384)
  t.equal(meter.report(384).backlogTokens, 192, 'the other one is still to be computed')
  meter.onEvent('image', { type: 'start', id: 'image', promptTokens: 192 }, 20_000)
  meter.onEvent('image', { type: 'start', id: 'image', promptTokens: 192 }, 20_001)
  meter.onEvent('image', { type: 'token', token: 1, text: '' }, 20_384)
  const { tokenMs = 0, besideMs = 0, backlogTokens } = meter.report(20_384)
  const each = tokenMs + besideMs
  t.ok(each > 1.7 && each < 2.3, `a token took 2 ms beside another request: ${each}`)
  t.equal(backlogTokens, 0)
  place('left', [10, 11], 21_000)
  meter.onEvent('left', { type: 'error', error: { code: 'cancelled', message: '' } }, 40_000)
  place('continued', [12, 13], 41_000)
  t.equal(meter.onEvent('continued', { type: 'token', token: 1, text: '' }, 60_000), true)
  t.match(meter.report(60_000), { open: 3, backlogTokens: 0, backlogPairs: 0, tokenMs, besideMs })
  t.end()
})

t.test('a request with images waits for those before it, a text does not', (t) => {
  const table = new WorkerTable('front')
  const meter = new LoadMeter(4)
  const [seen, text] = [{ ...request('seen', [1, 2]), files: [64, 128] }, request('text', [3])]
  const viewOf = (one: typeof text, now: number) => {
    table.set('w', meter.report(now), now)
    return table.views(one, now)[0]!
  }
  t.match(viewOf(seen, 0), { waitMs: 1000, backlogFiles: 0 }, 'its own, before one was measured')
  t.equal(viewOf(text, 0).waitMs, 0)
  table.place('w', seen, 0)
  const other = { ...request('other', [1, 9]), files: [64, 128] }
  t.match(table.views(other, 0)[0]!, { waitMs: 1500, backlogFiles: 2 }, 'the first one is held')
  meter.onPlaced(seen, 'front', 1, 0)
  meter.onPlaced({ ...other, id: 'left' }, 'front', 2, 0)
  t.equal(meter.report(0).backlogFiles, 3)
  t.equal(meter.onEvent('seen', { type: 'start', id: 'seen', promptTokens: 128 }, 600), true)
  t.match(meter.report(600), { backlogFiles: 1, fileMs: 300 })
  const left = { code: 'cancelled', message: '' } as const
  meter.onEvent('left', { type: 'error', error: left }, 700)
  meter.onPlaced({ ...other, id: 'next', blocks: [1, 5] }, 'front', 3, 9000)
  meter.onEvent('next', { type: 'start', id: 'next', promptTokens: 128 }, 9100)
  const { fileMs = 0, backlogFiles } = meter.report(9100)
  t.ok(backlogFiles === 0 && Math.abs(fileMs - (570 + 100) / 2.9) < 1e-9, `${fileMs}`)
  t.end()
})

t.test('a front knows how much of a prompt each worker holds, and how long it waits', (t) => {
  let state = 7
  const below = (most: number) => Math.floor(((state = nextNumber(state)) / 2 ** 32) * most)
  // Each number stands for all before it, as the hashes of a prompt's blocks do.
  const chain = () => {
    let hash = 1
    return Array.from({ length: below(24) }, () => (hash = 3 * hash + Number(below(20) === 0)))
  }
  const shared = (one: readonly number[], other: readonly number[]) => {
    const apart = one.findIndex((block, index) => block !== other[index])
    return apart < 0 ? one.length : apart
  }
  const table = new WorkerTable('front')
  const report = new LoadMeter(4).report(0)
  const held = new Map<string, { chains: number[][]; tokenMs: number | undefined }>()
  let hits = 0
  for (let round = 0; round < 600; round++) {
    const id = `worker-${below(8)}`
    if (below(10) === 0) {
      held.delete(id)
      table.delete(id)
    } else {
      const known = held.get(id)?.chains ?? []
      const chains = [...known.filter(() => below(4) > 0), chain(), ...known.slice(0, below(2))]
      const tokenMs = below(2) === 0 ? undefined : 1 + below(9)
      held.set(id, { chains, tokenMs })
      const costs = {
        besideMs: 0,
        pairMs: 0,
        serviceMs: 0,
        backlogTokens: 10,
        ...(tokenMs && { tokenMs }),
      }
      table.set(id, { ...report, chains, ...costs }, round)
    }
    const blocks = chain()
    const measured = [...held.values()].flatMap(({ tokenMs }) => tokenMs ?? [])
    const usual = measured.reduce((sum, ms) => sum + ms, 0) / measured.length || 1
    for (const view of table.views(request(String(round), blocks), round)) {
      const { chains, tokenMs = usual } = held.get(view.id)!
      const longest = Math.max(0, ...chains.map((one) => shared(blocks, one)))
      if (view.cachedTokens !== 64 * longest) t.fail(`${view.cachedTokens} of ${64 * longest}`)
      if (Math.abs(view.waitMs - 10 * tokenMs) > 1e-9) t.fail(`${view.waitMs} of ${10 * tokenMs}`)
      if (longest > 16) hits++
    }
  }
  t.ok(hits > 20, `${hits} held more than the index knows`)
  t.end()
})

t.test('a full worker gives up one prompt, and who comes then waits for a slot', (t) => {
  const meter = new LoadMeter(2)
  const place = (id: string, blocks: readonly number[]) =>
    meter.onPlaced(request(id, blocks), 'front', Number(id), 0)
  const end = (id: string) =>
    meter.onEvent(id, { type: 'error', error: { code: 'cancelled', message: '' } }, 1)
  for (const id of ['1', '2', '3']) {
    place(id, [Number(id), 9])
    end(id)
  }
  t.same(
    meter.report(1).chains,
    [
      [2, 9],
      [3, 9],
    ],
    'the two that were used last',
  )
  const costs = { tokenMs: 1, besideMs: 0, pairMs: 0, serviceMs: 100, backlogTokens: 0 }
  const waitOf = (open: number) => {
    const table = new WorkerTable('front')
    table.set('w', { ...meter.report(1), ...costs, slots: 2, open }, 1)
    return table.views(request('4', [4]), 1)[0]!.waitMs
  }
  t.same([1, 2, 3].map(waitOf), [0, 50, 100], 'half a request for each before it')
  t.end()
})

t.test('a front learns how much the others place that no report shows yet', (t) => {
  const table = new WorkerTable('own')
  const meters = new Map(['a', 'b', 'c'].map((id) => [id, new LoadMeter(4)]))
  const report = (now: number) => {
    for (const [id, meter] of meters) table.set(id, meter.report(now), now)
  }
  const one = request('own', [1, 2, 3])
  const unseenOf = () => table.views(one, 0)[0]!.unseen
  const place = (worker: string, front: string, number: number, now: number) =>
    meters.get(worker)!.onPlaced({ ...one, id: `${front}-${number}` }, front, number, now)
  report(0)
  t.equal(unseenOf(), 0, 'it is alone')
  place('a', 'second', 1, 1)
  place('a', 'third', 1, 1)
  report(1)
  t.equal(unseenOf(), 1, 'before anything was learnt, one for all fronts but one')
  // While its own placement is on the way, each of two others places one: reports show all at once.
  const number = table.place('a', one, 10)
  place('a', 'own', number, 10)
  place('b', 'second', 2, 10)
  place('c', 'third', 2, 10)
  report(20)
  report(30)
  t.equal(unseenOf(), 2)
  // What is shown at once hides nothing; the mean follows.
  for (let now = 100; now < 200; now++) {
    place('a', 'own', table.place('a', one, now), now)
    report(now)
  }
  table.delete('b')
  t.ok(unseenOf() < 0.1, `${unseenOf()}`)
  t.end()
})

t.test('of equal workers, fronts that do not see each other choose different ones', (t) => {
  const router = createRouter('least-wait')
  const views = (unseen: number, waits: readonly number[]) =>
    waits.map((waitMs, index) => ({
      id: `w${index}`,
      ageMs: 0,
      fronts: 16,
      unseen,
      slots: 4,
      open: index,
      openTokens: 0,
      backlogTokens: 0,
      backlogFiles: 0,
      tokenMs: 1,
      stepMs: 10,
      waitMs,
      cachedTokens: 0,
      firstTokenMs: waitMs + 1000,
      placedAt: 0,
    }))
  const chosen = (unseen: number, waits: readonly number[]) => {
    const ids = Array.from({ length: 200 }, (_, index) => {
      const placed = router.place(request(`${index}`, [1]), views(unseen, waits), 0)
      return 'worker' in placed ? placed.worker : ''
    })
    return new Set(ids).size
  }
  const waits = [0, 200, 400, 600, 4000, 9000]
  t.equal(chosen(0, waits), 1, 'seen by all, the first is taken')
  t.equal(chosen(1, waits), 3, 'one that is a little later costs less than to meet another')
  t.equal(chosen(15, waits), 5, 'the more are unseen, the wider')
  t.end()
})

/** Conversations whose prompts grow, over machines that hold a few of them each. */
function conversations(count: number, turns: number) {
  let state = 3
  const below = (limit: number) => Math.floor(((state = nextNumber(state)) / 2 ** 32) * limit)
  return Array.from({ length: count }, (_, conversation) => {
    const start = below(15_000)
    return Array.from({ length: turns }, (_, turn) => ({
      id: `${conversation}-${turn}`,
      arrival: start + turn * (6000 + below(3000)),
      // Every prompt begins with the same system prompt.
      prompt: Array.from({ length: 300 * (turn + 1) }, (_, at) =>
        at < 100 ? 7 : 1 + (conversation * 1000 + Math.floor(at / 300)) * 400 + (at % 300),
      ),
      maxTokens: 12,
      session: `${conversation}`,
      tenant: `${conversation % 5}`,
    }))
  }).flat()
}

const load = conversations(30, 4).toSorted((one, other) => one.arrival - other.arrival)

async function serve(router: string, more: Partial<SimulationOptions> = {}) {
  const { results } = await simulateLoad({
    policy: () => createPolicy('adaptive+fcfs'),
    machine: builtInMachines.get('two-cores') as MachineModel,
    machines: 12,
    slots: 8,
    router: () => createRouter(router),
    requests: load,
    ...more,
  })
  const times = results.map(({ tokenTimes, request: { arrival } }) => tokenTimes[0]! - arrival)
  const cached = results.reduce((sum, { usage }) => sum + (usage?.cachedTokens ?? 0), 0)
  const prompts = results.reduce((sum, { usage }) => sum + (usage?.promptTokens ?? 0), 0)
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length
  return { results, mean, hits: cached / prompts }
}

t.test('conversations: the default router beats those that do not look at prefixes', async (t) => {
  const found = new Map<string, Awaited<ReturnType<typeof serve>>>()
  for (const name of ['prefix-wait', 'least-loaded', 'session', 'kv']) {
    found.set(name, await serve(name))
  }
  const [own, plain] = [found.get('prefix-wait')!, found.get('least-loaded')!]
  t.ok(own.mean < 0.7 * plain.mean, `TTFT ${own.mean} against ${plain.mean}`)
  t.ok(own.hits > 2 * plain.hits, `hits ${own.hits} against ${plain.hits}`)
  for (const [name, { results }] of found) {
    t.ok(
      results.every(({ usage }) => usage?.generatedTokens === 12),
      name,
    )
  }
  // Whoever makes the simulator faster leaves its results as they are.
  t.same([own.mean.toFixed(3), plain.mean.toFixed(3)], ['1656.243', '2717.280'])
  const old = await serve('prefix-wait', { viewAgeMs: 1000 })
  t.ok(old.mean < 1.2 * own.mean, `views 1 s old: ${old.mean} against ${own.mean}`)
  const four = await serve('prefix-wait', { fronts: 4, viewAgeMs: 250 })
  t.ok(four.mean < 1.15 * own.mean, `four fronts: ${four.mean} against ${own.mean}`)
})

t.test('machines that die, drain and are unequal: every request gets its answer', async (t) => {
  const slowest = builtInMachines.get('two-cores') as MachineModel
  const options = {
    deaths: 0.5,
    drains: [{ machine: 3, at: 9000 }],
    fronts: 3,
    viewAgeMs: 250,
    machine: (index: number) => slower(slowest, 1 + index / 6),
  }
  const [one, other] = [await serve('prefix-wait', options), await serve('prefix-wait', options)]
  t.same(one.results, other.results, 'the same each time')
  t.ok(one.results.every(({ usage }) => usage?.generatedTokens === 12))
  t.ok(
    one.results.every(({ tokenTimes }) => tokenTimes.length === 12),
    'each token once',
  )
  t.equal(one.results.filter(({ error }) => error !== undefined).length, 0)
})

t.test('a router holds and refuses', async (t) => {
  let asked = 0
  const patient = () => ({
    place(request: { readonly id: string }, [first]: readonly { readonly id: string }[]) {
      asked++
      if (request.id.endsWith('-3')) return { refuse: 'not the last turn' }
      return asked % 3 === 0 ? { worker: first!.id } : { holdMs: 20 }
    },
  })
  const { results } = await serve('prefix-wait', { router: patient, machines: 2 })
  const refused = results.filter(({ error }) => error === 'rejected')
  t.equal(refused.length, 30)
  t.ok(refused.every(({ message }) => message === 'not the last turn'))
  t.equal(results.filter(({ usage }) => usage?.generatedTokens === 12).length, 90)
})
