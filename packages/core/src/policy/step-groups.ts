import type {
  SchedulerEvent,
  SchedulerState,
  SequenceView,
} from '../contracts/scheduling/scheduler-policy.js'

/** Requests in their order. */
export type Requests = Iterable<SequenceView>
type Group = string | undefined
type StepEvent = Extract<SchedulerEvent, { readonly type: 'step' }>

/** The state as a batching sees it, narrowed to one step group. */
export interface GroupView {
  readonly group: Group
  readonly state: SchedulerState
  readonly next: Iterable<SequenceView>
  /** Merges the requests of other groups that get a slot into those that the batching admits. */
  readonly withOthers: (admit: readonly string[]) => readonly string[]
}

/** The fewest steps of a turn, which share the cost of switching adapters. */
export const stepsPerTurn = 4

/** Turns are so long that switching takes at most this share of the steps' time … */
const changeShare = 0.25
/** … unless other groups would wait longer than this for their next token. */
const mostWaitMs = 200
/** The weight of the latest switch in the learned cost. */
const newest = 0.25

/**
 * Narrows a state to one step group. Groups with running requests take turns: a group waits at most for one turn of each
 * other group. A turn has {@link stepsPerTurn} steps, or more if switching is expensive, such as 30 ms on a GPU whose steps
 * take 5. The order alone decides which request gets a free slot: a request of another group can get it, and is computed
 * in its group's turn.
 */
export class StepGroups {
  /** The groups in the order of their turns; the group whose turn has just ended is the last. */
  #turns: readonly Group[] = []
  /** The group whose turn it is, and the number of its steps so far. */
  #last: { readonly group: Group; readonly steps: number } | undefined
  /** The steps since the last switch: group, number and milliseconds (NaN: one of them computed prompts). */
  #since: { readonly group: Group; readonly steps: number; readonly ms: number } | undefined
  #changeMs = 0
  /** Milliseconds of a step long after a switch; Infinity: none was seen. */
  #stepMs = Infinity

  /** The group ran a step. A step that computes prompts is a whole turn; an empty one does not count. */
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
    // a group that lost its turn to another one, as it had nothing to run, waits for its next turn
    const left = isSame || last === undefined || !others.includes(last.group) ? [] : [last.group]
    const waiting = [...others.filter((other) => !left.includes(other)), ...left]
    this.#turns = isOver ? [...waiting, group] : [group, ...waiting]
  }

  /**
   * A step was computed. The cost of a switch is what the first steps take longer than the {@link stepsPerTurn}th, as a
   * GPU's driver also prepares the new graph in the second step.
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
   * The views of the groups that can run, in the order of their turns. Use the first one that has something to run.
   *
   * @param next - the waiting requests in the order of admission
   * @param inGroups - whether the batching admits whole batches: then requests of another group wait until a batch has
   *   ended
   */
  *views(state: SchedulerState, next: Requests, inGroups: boolean): Iterable<GroupView> {
    const waiting = new Lookahead(next)
    const running = new Set([state.running[0] ?? waiting.at(0), ...state.running].map(groupOf))
    const known = this.#turns.filter((group) => running.has(group))
    // New groups come after the known ones.
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
  // Requests of other groups at the head get their slots even if the batching reads no waiting request.
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

/** The beginning of an order, which is only read as far as needed. */
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
