import { policyNames } from '@cllm/scheduler'

const part = (index: number) => [...new Set(policyNames.map((name) => name.split('+')[index]!))]

/** The built-in batchings, such as `chunked`. */
export const batchingNames: readonly string[] = part(0)

/** The built-in orders, such as `fcfs`. */
export const orderNames: readonly string[] = part(1)
