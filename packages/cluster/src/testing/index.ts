export * from './fake-bus.js'
export * from './redis-server.js'
export * from './stoppable-clock.js'
export * from './tcp-relay.js'
