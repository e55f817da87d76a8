export * from './machine.js'
export * from './serve-load.js'
