/** zod as all packages share it, so that a start loads it once. @module */
export * from 'zod'
