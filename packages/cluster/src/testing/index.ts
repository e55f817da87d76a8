export * from './fake-bus.js'
export * from './redis-server.js'
