import type {
  SchedulerEvent,
  SchedulerState,
  SequenceView,
} from '../contracts/scheduling/scheduler-policy.js'

/** Requests in their order. */
export type Requests = Iterable<SequenceView>
type Group = string | undefined
type StepEvent = Extract<SchedulerEvent, { readonly type: 'step' }>

/** What a batching sees of a state when only one step group may run. */
export interface GroupView {
  readonly group: Group
  readonly state: SchedulerState
  readonly next: Iterable<SequenceView>
  /** Puts the requests of other groups that get a slot, too, among those that the batching admits. */
  readonly withOthers: (admit: readonly string[]) => readonly string[]
}

/** Steps of a turn at least: what a change of adapters costs is shared by this many. */
export const stepsPerTurn = 4

/** Turns become so long that changes take this share of the time of the steps, */
const changeShare = 0.25
/** unless the others would wait longer than this for their next token. */
const mostWaitMs = 200
/** The weight of the last change in what one costs. */
const newest = 0.25

/**
 * Narrows a state to one step group. The groups that run take turns: none waits longer than for one turn of each
 * other one. A turn has {@link stepsPerTurn} steps, or more where a change costs more than that is worth: 30 ms on a
 * GPU whose steps take 5. Which request gets a free slot is the order's decision alone: one of another group gets it,
 * too, and is computed when it is its group's turn.
 */
export class StepGroups {
  /** By their turns: the one whose turn has ended last is at the end. */
  #turns: readonly Group[] = []
  /** The one that ran last, and the steps of its turn so far. */
  #last: { readonly group: Group; readonly steps: number } | undefined
  /** The steps since the last change: their group, number and milliseconds; NaN: one computed prompts. */
  #since: { readonly group: Group; readonly steps: number; readonly ms: number } | undefined
  #changeMs = 0
  /** Of a step long after a change; Infinity: none was seen. */
  #stepMs = Infinity

  /** The group has its step. One that computes prompts is a turn of its own; of nothing, it is none. */
  ran(group: Group, run: readonly { readonly tokens: number }[]): void {
    if (run.length === 0) return
    const last = this.#last
    const isSame = last !== undefined && last.group === group
    const steps = isSame ? last.steps + 1 : 1
    let isOver = steps >= this.#turnSteps
    for (const { tokens } of run) isOver ||= tokens > 1
    this.#last = isOver ? undefined : { group, steps }
    if (this.#turns.length === 1 && this.#turns[0] === group) return
    const others = this.#turns.filter((other) => other !== group)
    // one whose turn another one took, as it had nothing to run, waits for the next
    const left = isSame || last === undefined || !others.includes(last.group) ? [] : [last.group]
    const waiting = [...others.filter((other) => !left.includes(other)), ...left]
    this.#turns = isOver ? [...waiting, group] : [group, ...waiting]
  }

  /**
   * A step was computed. What the first ones after a change take longer than the {@link stepsPerTurn}th is what the
   * change costs: a GPU's driver prepares the new graph in the second one, too.
   */
  onStep({ durationMs, prefillTokens, parts }: StepEvent): void {
    const before = this.#since
    const group = groupOf(parts[0]?.request)
    const isSame = before !== undefined && before.group === group
    const steps = isSame ? before.steps + 1 : 1
    const ms = (isSame ? before.ms : 0) + (prefillTokens > 0 ? NaN : durationMs)
    this.#since = { group, steps, ms }
    if (steps !== stepsPerTurn || Number.isNaN(ms)) return
    const cost = Math.max(0, ms - stepsPerTurn * durationMs)
    this.#changeMs += (cost - this.#changeMs) * (this.#stepMs === Infinity ? 1 : newest)
    this.#stepMs = durationMs
  }

  get #turnSteps(): number {
    const worth = this.#changeMs / (changeShare * this.#stepMs)
    const most = mostWaitMs / Math.max(1, this.#turns.length - 1) / this.#stepMs
    return Math.max(stepsPerTurn, Math.floor(Math.min(worth, most)))
  }

  /**
   * The views of the groups that can run, by their turns; the first is meant to be used.
   *
   * @param next - the waiting requests in the order in which they are to be admitted
   * @param inGroups - whether a batch is whole when it begins: then requests of another group wait until
   *   it has ended
   */
  *views(state: SchedulerState, next: Requests, inGroups: boolean): Iterable<GroupView> {
    const waiting = new Lookahead(next)
    const running = new Set([state.running[0] ?? waiting.at(0), ...state.running].map(groupOf))
    const known = this.#turns.filter((group) => running.has(group))
    // A group that is new waits for those that were there before it.
    this.#turns = [...known, ...[...running].filter((group) => !known.includes(group))]
    for (const group of this.#turns) {
      yield viewOf(group, state, waiting, inGroups ? 0 : state.freeSlots)
    }
  }
}

const groupOf = (request: SequenceView | undefined): Group => request?.stepGroup

function viewOf(group: Group, state: SchedulerState, waiting: Lookahead, slots: number): GroupView {
  const others: string[] = []
  const isOther = (request: SequenceView | undefined): boolean =>
    request !== undefined && request.stepGroup !== group
  // Those at the head get their slots even if the batching looks at none that waits.
  let at = 0
  for (; at < slots && isOther(waiting.at(at)); at++) others.push(waiting.at(at)!.id)
  function* own(): Iterable<SequenceView> {
    for (let request = waiting.at(at); request !== undefined; request = waiting.at(++at)) {
      if (at >= slots && (others.length > 0 || isOther(request))) return
      if (isOther(request)) others.push(request.id)
      else yield request
    }
  }
  return {
    group,
    state: state.running.some(isOther) ? narrowed(state, group) : state,
    next: own(),
    withOthers: (admit) =>
      others.length === 0
        ? admit
        : waiting.ids().filter((id) => [...admit, ...others].includes(id)),
  }
}

function narrowed(state: SchedulerState, group: Group): SchedulerState {
  const running = state.running.filter((request) => request.stepGroup === group)
  const delayed = state.running.filter((request) => request.stepGroup !== group)
  return { ...state, running, delayed }
}

/** The beginning of an order, which is read no further than it is asked for. */
class Lookahead {
  readonly #read: SequenceView[] = []
  readonly #rest: Iterator<SequenceView>

  constructor(requests: Iterable<SequenceView>) {
    this.#rest = requests[Symbol.iterator]()
  }

  at(index: number): SequenceView | undefined {
    while (this.#read.length <= index) {
      const { value, done } = this.#rest.next()
      if (done === true) return undefined
      this.#read.push(value)
    }
    return this.#read[index]
  }

  /** Of those that were read. */
  ids(): string[] {
    return this.#read.map(({ id }) => id)
  }
}
