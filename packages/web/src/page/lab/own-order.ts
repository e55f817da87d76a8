import { type Order, type SequenceView, defineOrder, PluginRegistry } from '@cllm/core'
import { batchings, boundedOvertaking, WaitingHeap } from '@cllm/scheduler'

/** The policies with an order that was typed in: every batching with it, as `batching+own`. */
export class OwnPolicies {
  /** What went wrong in it. The engine goes on with another policy then, whose figures mean nothing. */
  problem: Error | undefined
  readonly #registry = new PluginRegistry()
  readonly #rank: (request: SequenceView) => unknown

  /**
   * @param code - an expression of `request`, such as `request.maxTokens`; it runs in a worker that has no
   *   page and no network, on the machine of who typed it
   * @throws SyntaxError
   */
  constructor(code: string) {
    // oxlint-disable-next-line typescript/no-implied-eval -- this is what the field is for
    this.#rank = new Function('request', `return (${code})`) as (request: SequenceView) => unknown
    for (const batching of batchings) this.#registry.registerBatching(batching)
    const create = (): Order =>
      boundedOvertaking(new WaitingHeap((request) => this.#rankOf(request)))
    this.#registry.registerOrder(defineOrder({ name: 'own', doc: 'Typed into the lab.', create }))
  }

  /** Makes a policy by its name. */
  create(name: string, options: Readonly<Record<string, unknown>>) {
    return this.#registry.createPolicy(name, options)
  }

  #rankOf(request: SequenceView): number {
    try {
      const value = this.#rank(request)
      if (typeof value === 'number' && !Number.isNaN(value)) return value
      throw new Error(`The order of your own gave ${String(value)}, which is no number`)
    } catch (error) {
      this.problem ??= error as Error
      return 0
    }
  }
}
