import { GrowingHash } from '@cllm/core/portable'

/** What a router sees of a machine. */
export interface MachineView {
  /** Requests on it that have not ended. */
  readonly open: number
}

/** Says which machine gets a request. Each run has a router of its own. */
export interface Router {
  /** The index of the machine that gets a request with this prompt. */
  route(prompt: readonly number[], machines: readonly MachineView[]): number
}

const block = 64

/** Machines in turns. */
function roundRobin(): Router {
  let turn = 0
  return { route: (_, machines) => turn++ % machines.length }
}

/** The machine with the fewest requests; of equal ones the first. */
function leastLoaded(): Router {
  return { route: (_, machines) => leastOf(machines) }
}

/**
 * The machine that got the longest beginning of this prompt before, as long as it is not much busier
 * than the idlest: twice as many requests and 8 more (the idea of SGLang's cache-aware router).
 */
function prefixAffinity(): Router {
  const known = new Map<number, number>()
  return {
    route(prompt, machines) {
      const hashes = blockHashes(prompt)
      const last = hashes.findLast((hash) => known.has(hash))
      const least = leastOf(machines)
      const usual = last === undefined ? least : (known.get(last) ?? least)
      const isTooBusy = openOf(machines, usual) > 8 + 2 * openOf(machines, least)
      const chosen = isTooBusy ? least : usual
      for (const hash of hashes) known.set(hash, chosen)
      return chosen
    },
  }
}

/** The routers by name, the default first. */
export const routers: ReadonlyMap<string, () => Router> = new Map([
  ['round-robin', roundRobin],
  ['least-loaded', leastLoaded],
  ['prefix-affinity', prefixAffinity],
])

const openOf = (machines: readonly MachineView[], index: number) => machines[index]?.open ?? 0

function leastOf(machines: readonly MachineView[]): number {
  let least = 0
  for (const index of machines.keys()) {
    if (openOf(machines, index) < openOf(machines, least)) least = index
  }
  return least
}

/** A hash for each whole block and all that comes before it. */
function blockHashes(prompt: readonly number[]): number[] {
  const hash = new GrowingHash()
  const hashes: number[] = []
  for (const [index, token] of prompt.entries()) {
    hash.add(token)
    if ((index + 1) % block === 0) hashes.push(hash.value)
  }
  return hashes
}
