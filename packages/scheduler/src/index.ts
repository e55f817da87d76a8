export * from './batchings/adaptive/adaptive.js'
export * from './batchings/fixed.js'
export * from './orders/by-service.js'
export * from './orders/by-tenant.js'
export * from './orders/by-urgency.js'
export * from './orders/plain.js'
export * from './model-schedulers.js'
export * from './policies.js'

// Routers, and the books that fronts and workers keep for them.
export * from './routers/choose.js'
export * from './routers/routers.js'
export * from './routing/worker-table.js'
export * from './routing/load-meter.js'
export { blocksOfText, blocksOfTokens, type PromptBlocks } from './routing/prompt-chains.js'
export type { RequestToPlace } from './routing/known-worker.js'

// The kit that they are built with.
export * from './kit/bounded-overtaking.js'
export * from './kit/find-victims.js'
export * from './kit/options.js'
export * from './kit/ranked-orders.js'
export * from './kit/tenant-ledger.js'
