import { defineRouter } from '@cllm/core'
import { drawTwo, leastBy, nearlyLeastBy } from './choose.js'

/** The workers in turns. */
export const roundRobin = defineRouter({
  name: 'round-robin',
  doc: 'The workers in turns.',
  create() {
    let last = ''
    return {
      place(_, workers) {
        // By id and not by place, so that a worker that comes or goes does not shift the turns.
        const next = workers.find(({ id }) => id > last) ?? workers[0]!
        last = next.id
        return { worker: next.id }
      },
    }
  },
})

/** The worker with the fewest requests; for one that has files, each file that waits there is one more. */
export const leastLoaded = defineRouter({
  name: 'least-loaded',
  doc: 'The worker with the fewest requests.',
  create: () => ({
    place({ files }, workers) {
      const isSeen = files.length > 0
      const best = leastBy(workers, (one) => one.open + (isSeen ? one.backlogFiles : 0))
      return { worker: best.id }
    },
  }),
})

/** The worker with the shortest predicted wait. */
export const leastWait = defineRouter({
  name: 'least-wait',
  doc: 'The worker with the shortest predicted wait, whatever it holds.',
  create: () => ({
    place: ({ id }, workers) => ({ worker: nearlyLeastBy(id, workers, ({ waitMs }) => waitMs).id }),
  }),
})

/**
 * The better one of two workers that the request's id names: nearly as even as the best of all, and
 * fronts with old views do not all choose the same one (Mitzenmacher 2001).
 */
export const twoChoices = defineRouter({
  name: 'two-choices',
  doc: 'Of two workers drawn by the request, the one with the earlier first token; robust against old views.',
  create: () => ({
    place({ id }, workers) {
      const two = drawTwo(id, workers)
      return { worker: leastBy(two, ({ firstTokenMs }) => firstTokenMs).id }
    },
  }),
})
