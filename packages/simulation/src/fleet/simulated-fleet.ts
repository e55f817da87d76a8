import {
  type Engine,
  type EngineStatistics,
  type RequestEvent,
  cancelReason,
  defined,
  nextNumber,
  defaultMaxTokens,
} from '@cllm/core'
import { blocksOfTokens, createRouter, type WorkerReport } from '@cllm/scheduler'
import type { FleetParts, RequestService, SimulatedTask } from './fleet-options.js'
import { SimulatedFront, SimulatedMachine } from './simulated-machine.js'

/** A request of a fleet: where it runs, and its answer so far. */
class Placed {
  readonly answer: number[] = []
  firstTokenMs: number | undefined
  isAccepted = false
  machine: SimulatedMachine | undefined
  moves = 0

  constructor(
    readonly id: string,
    readonly tokens: readonly number[],
    readonly request: SimulatedTask,
    readonly front: SimulatedFront,
    readonly arrival: number,
  ) {}
}

const minuteMs = 60_000
const allDrain = 'No machine takes requests any more'

/** Machines behind fronts that place requests on them: they may die, drain and be unequal. */
export class SimulatedFleet implements RequestService {
  /** Engines that run, and engines of dead machines until their last step has ended. */
  readonly engines = new Set<Engine>()
  /** Statistics of engines that have ended. */
  readonly #done: EngineStatistics[] = []
  readonly #machines: (SimulatedMachine | undefined)[] = []
  /** Machines that live, and dead ones until the fronts notice. */
  readonly #byId = new Map<string, SimulatedMachine>()
  readonly #fronts: readonly SimulatedFront[]
  readonly #open = new Map<string, Placed>()
  readonly #draining = new Set<number>()
  #turn = 0
  #chance: number

  constructor(private readonly parts: FleetParts) {
    const {
      machines = 1,
      fronts = 1,
      router = () => createRouter(),
      clock,
      deaths = 0,
      drains = [],
    } = parts
    this.#chance = parts.seed
    this.#fronts = Array.from(
      { length: fronts },
      (_, index) => new SimulatedFront(`front-${index}`, router(), clock),
    )
    for (let index = 0; index < machines; index++) this.#start(index)
    for (const { machine, at } of drains) clock.at(at, () => this.#drain(machine))
    if (deaths > 0 && machines > 1) this.#plan(minuteMs / (deaths * machines))
  }

  get size(): number {
    return this.#machines.length
  }

  statistics(): readonly EngineStatistics[] {
    return [...this.#done, ...Array.from(this.engines, (engine) => engine.statistics())]
  }

  /** Gives the request to the next front (round robin). */
  submit(id: string, tokens: readonly number[], request: SimulatedTask): void {
    const front = this.#fronts[this.#turn++ % this.#fronts.length]!
    const placed = new Placed(id, tokens, request, front, this.parts.clock.now())
    this.#open.set(id, placed)
    this.#place(placed)
  }

  cancel(id: string): void {
    const placed = this.#open.get(id)
    if (placed === undefined) return
    const { machine } = placed
    // The machine may be dead without any front having noticed.
    if (machine !== undefined && !machine.isDead) machine.engine.cancel(id)
    else this.#fail(placed, 'cancelled', cancelReason)
  }

  #start(index: number): void {
    const { clock, slots, machines = 1 } = this.parts
    const now = (): number => clock.now()
    const id = `machine-${String(index).padStart(4, '0')}`
    const engine = this.parts.createEngine(index)
    this.engines.add(engine)
    const onEvent: FleetParts['onEvent'] = (request, event) => this.#take(request, event)
    const onReport = (report: WorkerReport): void => this.#report(machine, report)
    // Nothing is routed to a single machine, so that its reports are not needed.
    const told = machines > 1 ? onReport : undefined
    const machine: SimulatedMachine = new SimulatedMachine(id, engine, slots, now, onEvent, told)
    this.#machines[index] = machine
    this.#byId.set(id, machine)
    this.#deliver(machine, machine.report)
  }

  /** Gives a machine's report to the fronts, `viewAgeMs` later. */
  #report(machine: SimulatedMachine, report: WorkerReport): void {
    const { clock, viewAgeMs = 0 } = this.parts
    if (viewAgeMs === 0) this.#deliver(machine, report)
    else clock.at(clock.now() + viewAgeMs, () => this.#deliver(machine, report))
  }

  #deliver(machine: SimulatedMachine, report: WorkerReport): void {
    if (machine.isDead) return
    for (const front of this.#fronts) front.onReport(machine.id, report)
  }

  #place(placed: Placed): void {
    const { id, tokens, request, front, moves } = placed
    if (this.#machines.length === 1) return this.#submit(placed, this.#machines[0]!)
    if (this.#takesNothing) return this.#fail(placed, 'rejected', allDrain)
    const { tenant = '', session, priority = 0, maxTokens = defaultMaxTokens, media = [] } = request
    const files = media.map(({ at }) => at + 1)
    const prompt = { promptTokens: tokens.length, ...blocksOfTokens(tokens), files }
    front.place({
      request: { id, tenant, session, priority, maxTokens, moves, ...prompt },
      isOpen: () => this.#open.has(id),
      onPlaced: (worker, placement) => {
        const machine = this.#byId.get(worker)
        placed.machine = machine
        // The front may have chosen a dead machine: the request moves when the death is noticed.
        if (machine === undefined || machine.isDead) return
        const continuedTokens = placed.answer.length
        machine.onPlaced({ id, ...prompt, continuedTokens }, front.name, placement)
        this.#submit(placed, machine)
      },
      onRefused: (reason) => this.#fail(placed, 'rejected', reason),
    })
  }

  #submit(placed: Placed, machine: SimulatedMachine): void {
    const { id, tokens, answer, arrival, firstTokenMs, isAccepted } = placed
    const { media, messages, model: _, ...request } = placed.request
    placed.machine = machine
    const elapsedMs = this.parts.clock.now() - arrival
    const progress = isAccepted
      ? { continued: { tokens: [...answer], elapsedMs, ...defined({ firstTokenMs }) } }
      : elapsedMs > 0
        ? { arrivedMsAgo: elapsedMs }
        : {}
    machine.engine.submit(id, {
      ...request,
      prompt: { tokens, ...defined({ media, messages }) },
      ...progress,
    })
  }

  #take(id: string, event: RequestEvent): void {
    const placed = this.#open.get(id)
    if (placed === undefined) return
    if (event.type === 'start') {
      if (placed.isAccepted) return
      placed.isAccepted = true
    } else if (event.type === 'token') {
      placed.answer.push(event.token)
      placed.firstTokenMs ??= this.parts.clock.now() - placed.arrival
    } else if (event.type !== 'progress') this.#open.delete(id)
    this.parts.onEvent(id, event)
  }

  #fail(placed: Placed, code: 'rejected' | 'cancelled', message: string): void {
    this.#open.delete(placed.id)
    this.parts.onEvent(placed.id, { type: 'error', error: { code, message } })
  }

  #drain(index: number): void {
    const machine = this.#machines[index]
    this.#draining.add(index)
    if (machine !== undefined) for (const front of this.#fronts) front.onDrain(machine.id)
    if (!this.#takesNothing) return
    for (const placed of this.#open.values()) {
      if (placed.machine === undefined) this.#fail(placed, 'rejected', allDrain)
    }
  }

  /** Whether every machine drains: requests without a machine are rejected. */
  get #takesNothing(): boolean {
    return this.#draining.size === this.#machines.length
  }

  /** Plans the next death; deaths are evenly spaced in time. */
  #plan(everyMs: number): void {
    const { clock, isBusy } = this.parts
    clock.at(clock.now() + everyMs, () => {
      if (!isBusy()) return
      this.#chance = nextNumber(this.#chance)
      this.#kill(Math.floor((this.#chance / 2 ** 32) * this.#machines.length))
      this.#plan(everyMs)
    })
  }

  #kill(index: number): void {
    const machine = this.#machines[index]
    const isLast = this.#machines.filter((one) => one !== undefined).length === 1
    if (machine === undefined || isLast) return
    const { clock, noticeMs = 1500, restartMs = 30_000 } = this.parts
    this.#machines[index] = undefined
    void machine.die().then(() => {
      this.#done.push(machine.engine.statistics())
      this.engines.delete(machine.engine)
    })
    const now = clock.now()
    clock.at(now + noticeMs, () => this.#onLost(machine))
    clock.at(now + Math.max(restartMs, noticeMs + 1), () => {
      if (!this.#draining.has(index)) this.#start(index)
    })
  }

  /** The fronts notice a death, and place the dead machine's requests on others. */
  #onLost(machine: SimulatedMachine): void {
    this.#byId.delete(machine.id)
    for (const front of this.#fronts) front.onGone(machine.id)
    for (const placed of this.#open.values()) {
      if (placed.machine !== machine) continue
      placed.machine = undefined
      placed.moves++
      this.#place(placed)
    }
  }
}
