// Which test an error belongs to that nothing catches. tap's own answer (`async-hook-domain`, whose place this takes)
// follows every promise from its making to its end, which is a quarter of the time of our tests. They run one after the
// other: it is the innermost test that is not over.
const running = []

const handlerOf = (type) => (error) => {
  // Who listens, too, sees to it.
  if (process.listenerCount(type) === 1) running.at(-1).onError(error, type)
}
const handlers = ['uncaughtException', 'unhandledRejection'].map((type) => [type, handlerOf(type)])

export class Domain {
  constructor(onError) {
    this.onError = onError
    if (running.push(this) === 1) for (const [type, handle] of handlers) process.on(type, handle)
  }

  destroy() {
    const index = running.indexOf(this)
    if (index !== -1) running.splice(index, 1)
    if (running.length === 0) for (const [type, handle] of handlers) process.off(type, handle)
  }
}
