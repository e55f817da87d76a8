import assert from 'node:assert/strict'
import type { RouterDefinition, Placement, RoutedRequest, RouterPolicy } from '@cllm/core'
import { askRouter, systemClock, Catalog } from '@cllm/core'
import { check, checkDefined, type TestContext } from '../test-context.js'
import { Draw, drawRequest, filesEvery, SimulatedWorkers } from './simulated-workers.js'

/** What a router claims, and the options that it is tested with. */
export interface TestRouterOptions {
  /** Default: its defaults. */
  readonly options?: Readonly<Record<string, unknown>>
  /**
   * Whether it never chooses a worker with a long queue while another one is idle, whatever the request has there.
   * Default true.
   */
  readonly leavesBusyWorkers?: boolean
  /** Whether it counts the files that wait on a worker for a request that has files, too. Default false. */
  readonly countsFiles?: boolean
  /**
   * Most milliseconds that placing may take among 1,000 workers; default 5. The fastest quarter of 20 times counts,
   * which other work on the machine does not disturb.
   */
  readonly maxPlaceMs?: number
}

const requests = 300

/**
 * The conformance suite of routers: every request is placed on one of the workers that are there, or
 * held or refused while these are busy; the same questions get the same answers; nothing that a router
 * is given changes; workers may come and go between two requests.
 */
export async function testRouter(
  t: TestContext,
  definition: RouterDefinition,
  { options = {}, leavesBusyWorkers, countsFiles, maxPlaceMs = 5 }: TestRouterOptions = {},
): Promise<void> {
  const make = () => {
    const catalog = new Catalog<RouterPolicy>('router', 'place')
    catalog.add(definition)
    return catalog.create(definition.name, options)
  }

  await t.test(`router ${definition?.name}`, async (t) => {
    await checkDefined(t, 'router', definition, make)

    await check(t, 'places requests on workers that are there, while these come and go', () => {
      for (const seed of [1, 2, 3]) assert.equal(serve(make(), seed).length, requests)
    })

    await check(t, 'gives the same answers to the same questions', () => {
      assert.deepEqual(serve(make(), 4), serve(make(), 4))
    })

    await check(t, 'holds or refuses nothing while all workers are idle', () => {
      const router = make()
      const draw = new Draw(5)
      for (let index = 0; index < 100; index++) {
        const workers = new SimulatedWorkers(1 + draw.below(5))
        const request = drawRequest(draw, index)
        const placement = ask(router, request, workers)
        assert('worker' in placement, `${JSON.stringify(placement)} with idle workers`)
      }
    })

    if (leavesBusyWorkers !== false) {
      await check(t, 'leaves a worker with a long queue when another one is idle', () =>
        leavesBusy(make, 1, (workers, busy, draw) => {
          // What they share is on the busy worker.
          for (let index = 0; index < 50; index++) {
            workers.place(workers.ids[busy]!, drawRequest(draw, index))
          }
          workers.burden(busy, 200)
        }),
      )
    }

    if (countsFiles === true) {
      await check(t, 'leaves a worker with a long queue of files when a request has some', () =>
        leavesBusy(make, filesEvery, (workers, busy) => {
          workers.burden(busy, 0, 100)
          workers.burden(1 - busy, 30)
        }),
      )
    }

    await check(t, `places within ${maxPlaceMs} ms among 1,000 workers`, () => {
      const router = make()
      const workers = new SimulatedWorkers(1000)
      const draw = new Draw(7)
      const times = Array.from({ length: 20 }, (_, index) => {
        const request = drawRequest(draw, index)
        const views = workers.views(request)
        const began = systemClock.now()
        askRouter(router, request, views, 0)
        return systemClock.now() - began
      })
      // a busy machine makes many of them slow
      const quick = times.sort((a, b) => a - b)[times.length / 4] ?? 0
      assert(quick <= maxPlaceMs, `it takes ${quick.toFixed(2)} ms`)
    })
  })
}

/** Asks about every so many requests: none may go to the one of two workers that is made busy. */
function leavesBusy(
  make: () => RouterPolicy,
  every: number,
  makeBusy: (workers: SimulatedWorkers, busy: number, draw: Draw) => void,
): void {
  for (let busy = 0; busy < 2; busy++) {
    const [router, workers, draw] = [make(), new SimulatedWorkers(2), new Draw(6)]
    makeBusy(workers, busy, draw)
    for (let index = 0; index < 50; index++) {
      const placement = ask(router, drawRequest(draw, 100 + index * every), workers)
      const chosen = 'worker' in placement ? placement.worker : undefined
      assert.notEqual(chosen, workers.ids[busy], `${chosen} is busy, another idle`)
    }
  }
}

/** Asks once; the answer must be one that a front can carry out. */
function ask(router: RouterPolicy, request: RoutedRequest, workers: SimulatedWorkers): Placement {
  const views = workers.views(request)
  const placement = askRouter(router, request, views, workers.now)
  if ('holdMs' in placement) {
    const { holdMs } = placement
    const most = Math.max(1000, ...views.map(({ waitMs }) => waitMs))
    assert(holdMs > 0 && holdMs <= most, `held for ${holdMs} ms, all are idle in ${most} ms`)
  }
  return placement
}

/** Places a load; a request that is held is asked about again until it is not. */
function serve(router: RouterPolicy, seed: number): Placement[] {
  const draw = new Draw(seed)
  const workers = new SimulatedWorkers(1 + draw.below(6))
  const placements: Placement[] = []
  for (let index = 0; index < requests; index++) {
    if (draw.below(20) === 0) workers.add()
    if (draw.below(20) === 0) workers.remove(draw.below(workers.ids.length))
    const request = drawRequest(draw, index)
    let placement = ask(router, request, workers)
    for (let tries = 0; 'holdMs' in placement; tries++) {
      assert(tries < 1000, 'it holds a request for ever')
      workers.advance(placement.holdMs)
      placement = ask(router, request, workers)
    }
    if ('worker' in placement) workers.place(placement.worker, request)
    placements.push(placement)
    workers.advance(draw.below(400))
  }
  return placements
}
