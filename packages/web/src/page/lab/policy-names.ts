// `policyNames` of `@cllm/scheduler` would bring the policies themselves into the page, which only the
// lab's worker needs. A test compares the two.
const batchings = ['adaptive', 'chunked', 'continuous', 'window', 'static']
const orders = 'fcfs priority sjf hrrn lpm fair dlpm edf mlfq random'.split(' ')

/** The built-in policies. */
export const policyNames: readonly string[] = batchings.flatMap((batching) =>
  orders.map((order) => `${batching}+${order}`),
)

/** Those with the order that is typed into the lab. */
export const ownNames: readonly string[] = batchings.map((batching) => `${batching}+own`)
