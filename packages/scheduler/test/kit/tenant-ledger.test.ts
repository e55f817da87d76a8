import type { SchedulerEvent, SequenceView } from '@cllm/core'
import { createPolicy, type Tenant, TenantLedger } from '@cllm/scheduler'
import { type SimulatedRequest, simulateLoad } from '@cllm/simulation'
import * as fc from 'fast-check'
import t from 'tap'

const prices = { inputWeight: 1, outputWeight: 2, weights: { gold: 4 } }

type Request = { -readonly [Key in keyof SequenceView]: SequenceView[Key] }

function request(tenant: string, promptTokens = 10): Request {
  const counts = { promptTokens, remainingTokens: promptTokens, generatedTokens: 0, preemptions: 0 }
  return { tenant, ...counts } as Request
}

type Change = Exclude<SchedulerEvent['type'], 'step'>

/** A ledger with short names for the events of requests. */
function bookkeeping(onJoin?: (tenant: Tenant) => void) {
  const ledger = new TenantLedger(prices, onJoin)
  return {
    ledger,
    change: (request: SequenceView, ...types: readonly Change[]) => {
      for (const type of types) ledger.observe({ type, request, now: 0 })
    },
    /** A step draws this many tokens for the request. */
    draw: (request: Request, tokens: number) => {
      request.generatedTokens += tokens
      ledger.observe({
        type: 'step',
        now: 0,
        durationMs: 1,
        prefillTokens: 0,
        decodeSequences: 1,
        contextTokens: 0,
        parts: [{ request, tokens: 1, context: 0, isDecode: true }],
      })
    },
  }
}

t.test('charges the prompt at admission and tokens as they are drawn, by weight', (t) => {
  for (const [tenant, weight] of [
    ['plain', 1],
    ['gold', 4],
  ] as const) {
    const { ledger, change, draw } = bookkeeping()
    const one = request(tenant, 40)
    const { used } = ledger.tenantOf(one)
    change(one, 'queued')
    t.equal(used, 0, 'waiting costs nothing')
    // 8 tokens of the prompt are in the slot already.
    one.remainingTokens = 32
    change(one, 'admitted')
    t.equal(ledger.tenantOf(one).used, 32 / weight)
    draw(one, 1)
    draw(one, 3)
    t.equal(ledger.tenantOf(one).used, (32 + 2 * 4) / weight, 'several tokens in one step count')
    one.generatedTokens++
    change(one, 'finished')
    t.equal(ledger.tenantOf(one).used, (32 + 2 * 5) / weight, 'so does what no step told of')
    change(one, 'finished')
    t.equal(ledger.tenantOf(one).used, (32 + 2 * 5) / weight, 'no token is charged twice')
  }
  t.end()
})

t.test('a preempted request is not charged for its prompt again', (t) => {
  const { ledger, change } = bookkeeping()
  const one = request('a')
  change(one, 'queued', 'admitted')
  one.preemptions++
  change(one, 'preempted')
  t.ok(ledger.waiting.has(ledger.tenantOf(one)))
  change(one, 'admitted')
  t.match(ledger.tenantOf(one), { used: 10, running: 1 })
  t.equal(ledger.waiting.size, 0)
  t.end()
})

t.test('what was drawn before a request came is not charged again', (t) => {
  const { ledger, change, draw } = bookkeeping()
  // Its thoughts were limited, it is of a batch that made room, or its engine died.
  const continued = request('a')
  continued.generatedTokens = 100
  change(continued, 'queued', 'admitted')
  draw(continued, 1)
  change(continued, 'finished')
  t.equal(ledger.tenantOf(continued).used, 10 + 2)
  t.end()
})

t.test('joining is told of once, when the first request of a tenant waits', (t) => {
  const joined: Tenant[] = []
  const { ledger, change } = bookkeeping((tenant) => joined.push(tenant))
  const [first, second] = [request('a'), request('a')]
  change(first, 'queued')
  change(second, 'queued')
  t.same([joined.length, ledger.waiting.size], [1, 1])
  change(first, 'admitted')
  t.equal(ledger.waiting.size, 1, 'the second one still waits')
  change(second, 'finished')
  t.equal(ledger.waiting.size, 0, 'it was cancelled in the queue')
  t.equal(ledger.tenantOf(first).running, 1)
  change(request('a'), 'queued')
  t.equal(joined.length, 2)
  t.end()
})

t.test('the account of any history is the sum of its requests', (t) => {
  const step = fc.tuple(fc.nat(5), fc.constantFrom('queue', 'admit', 'preempt', 'draw', 'finish'))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { ledger, change, draw } = bookkeeping()
      const tenants = ['a', 'b', 'gold']
      const live: { request: Request; tenant: string; place: 'waiting' | 'running' }[] = []
      const expected = new Map(tenants.map((name) => [name, 0]))
      const pay = (tenant: string, price: number) =>
        expected.set(tenant, expected.get(tenant)! + price / (tenant === 'gold' ? 4 : 1))
      for (const [number, action] of steps) {
        const tenant = tenants[number % 3]!
        const one = live[number % Math.max(1, live.length)]
        if (action === 'queue') {
          const made = request(tenant, 5 + number)
          live.push({ request: made, tenant, place: 'waiting' })
          change(made, 'queued')
        } else if (action === 'admit' && one?.place === 'waiting') {
          if (one.request.preemptions === 0) pay(one.tenant, one.request.remainingTokens)
          one.place = 'running'
          change(one.request, 'admitted')
        } else if (action === 'preempt' && one?.place === 'running') {
          one.place = 'waiting'
          one.request.preemptions++
          change(one.request, 'preempted')
        } else if (action === 'draw' && one?.place === 'running') {
          pay(one.tenant, 2 * (1 + number))
          draw(one.request, 1 + number)
        } else if (action === 'finish' && one !== undefined) {
          live.splice(live.indexOf(one), 1)
          change(one.request, 'finished')
        }
      }
      return tenants.every((name) => {
        const of = (place: string) =>
          live.filter((other) => other.tenant === name && other.place === place).length
        const tenant = ledger.tenantOf(request(name))
        return (
          Math.abs(tenant.used - expected.get(name)!) < 1e-6 &&
          tenant.running === of('running') &&
          tenant.waiting.size === of('waiting') &&
          ledger.waiting.has(tenant) === of('waiting') > 0
        )
      })
    }),
  )
  t.end()
})

t.test('many names cost no memory, and debts are remembered longest', (t) => {
  const { ledger, change, draw } = bookkeeping()
  const serve = (name: string, tokens: number) => {
    const one = request(name, 1)
    change(one, 'queued', 'admitted')
    draw(one, tokens)
    change(one, 'finished')
  }
  serve('debtor', 1_000_000)
  for (let index = 0; index < 5000; index++) serve(`tenant ${index}`, 1 + (index % 7))
  t.equal(ledger.tenantOf(request('debtor')).used, 1 + 2_000_000)
  const kept = Array.from({ length: 5000 }, (_, index) =>
    ledger.tenantOf(request(`tenant ${index}`)),
  )
    // A forgotten tenant is made anew and has used nothing.
    .filter(({ used }) => used > 0).length
  t.ok(kept <= 3000, `${kept} of 5000 idle tenants are kept`)
  t.end()
})

/** The orders that charge tenants; `dlpm` lets a tenant be ahead by its quantum. */
const orders = { fair: {}, dlpm: { quantum: 100 } }

/** Tokens drawn for each tenant until `untilMs`, with two slots and 1 ms a token. */
async function service(
  order: keyof typeof orders,
  requests: readonly SimulatedRequest[],
  untilMs: number,
) {
  const { results } = await simulateLoad({
    policy: () => createPolicy(`continuous+${order}`, { weights: { gold: 3 }, ...orders[order] }),
    machine: {
      name: 'even',
      about: '',
      stepMs: (shares) => shares.reduce((sum, { tokens }) => sum + tokens, 0),
      copyMs: () => 0,
      chunkMultiple: 1,
    },
    requests,
    slots: 2,
  })
  const drawn = new Map<string, number>()
  for (const { request, tokenTimes } of results) {
    const { tenant = '' } = request
    const tokens = tokenTimes.filter((time) => time <= untilMs).length
    drawn.set(tenant, (drawn.get(tenant) ?? 0) + tokens)
  }
  return (tenant: string): number => drawn.get(tenant) ?? 0
}

function backlog(tenant: string, arrival: number, count: number): SimulatedRequest[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `${tenant} ${index}`,
    tenant,
    arrival,
    prompt: Array.from({ length: 20 }, () => 1000 * arrival + tenant.length * 100 + index + 1),
    maxTokens: 20,
  }))
}

for (const order of ['fair', 'dlpm'] as const) {
  t.test(
    `${order}: the shares of tenants that always wait converge to their weights`,
    async (t) => {
      const requests = [...backlog('gold', 0, 150), ...backlog('plain', 0, 60)]
      const tokens = await service(order, requests, 5000)
      const ratio = tokens('gold') / tokens('plain')
      t.ok(tokens('plain') > 300 && Math.abs(ratio / 3 - 1) < 0.15, `${ratio.toFixed(2)} of 3`)
    },
  )

  t.test(`${order}: a tenant that was idle has saved nothing up`, async (t) => {
    const requests = [...backlog('busy', 0, 160), ...backlog('back', 3000, 60)]
    const tokens = await service(order, requests, 3000)
    const later = await service(order, requests, 5000)
    const [busy, back] = [later('busy') - tokens('busy'), later('back')]
    t.ok(back > 0 && Math.abs(busy / back - 1) < 0.15, `${busy} beside ${back} tokens`)
  })
}
