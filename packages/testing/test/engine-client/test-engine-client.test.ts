/* oxlint-disable typescript/unbound-method -- `bound` has bound them */
import {
  CllmError,
  type EngineClient,
  type EngineDirectory,
  type GenerateEvent,
  type OpenOptions,
  systemRandom,
} from '@cllm/core'
import { LocalEngineClient, type LoadedModel, ModelPool, overriding, watchStream } from '@cllm/host'
import { createConformanceEngine, testEngineClient, testEngineDirectory } from '@cllm/testing'
import t from 'tap'
import { FirstFailureContext } from '../recording-context.js'

type Methods = Partial<EngineClient>
type Events = AsyncIterableIterator<GenerateEvent>

function local(): LocalEngineClient {
  const { engine, registry } = createConformanceEngine()
  return new LocalEngineClient(engine, registry, systemRandom)
}

/** The same stream with another way of reading or leaving it. */
const changed = (events: Events, methods: Partial<Events>): Events => {
  const iterator: Events = {
    next: async () => await events.next(),
    return: async () => (await events.return?.()) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]: () => iterator,
    ...methods,
  }
  return iterator
}

/** Whether a promise is pending a turn of the event loop from now. */
async function unsettled(promise: Promise<unknown>): Promise<boolean> {
  const later = new Promise<boolean>((resolve) => setImmediate(() => resolve(true)))
  return await Promise.race([promise.then(() => false), later])
}

/** A client whose streams go through `change`. */
const streaming =
  (change: (events: Events) => Events) =>
  ({ submit }: EngineClient): Methods => ({
    submit: (request, options) => change(submit(request, options)),
  })

/** Defects, with what the suite says of them. */
const broken: [string, RegExp, (client: EngineClient) => Methods][] = [
  [
    'says what the engine had when it was asked first',
    /adapters that come and go: /,
    ({ info }) => {
      const first = info()
      return { info: async () => await first }
    },
  ],
  [
    'drops the signal of an embedding',
    /whose client left is not computed: .*expected cancelled/s,
    ({ embed }) => ({ embed: async (input) => await embed(input) }),
  ],
  [
    'lets its client leave and computes the input all the same',
    /inputs computed until the next one/,
    ({ embed }) => ({
      async embed(input, { signal } = {}) {
        const cancelled = () => new CllmError('cancelled', 'left')
        if (signal?.aborted) throw cancelled()
        return await new Promise((resolve, reject) => {
          signal?.addEventListener('abort', () => reject(cancelled()))
          embed(input).then(resolve, reject)
        })
      },
    }),
  ],
  [
    'loses the reason of a cancel',
    /cancel ends by id, with its reason: the reason/,
    ({ cancel }) => ({ cancel: (id) => cancel(id) }),
  ],
  [
    'loses the reason of a signal',
    /a signal cancels, with its reason: the reason/,
    ({ submit }) => ({
      submit(request, { signal } = {}) {
        const leaving = new AbortController()
        signal?.addEventListener('abort', () => leaving.abort())
        return submit(request, { signal: leaving.signal })
      },
    }),
  ],
  [
    'does not look at a signal that has aborted before',
    /has aborted before cancels, too/,
    ({ submit }) => ({
      submit: (request, options) =>
        submit(
          { ...request, maxTokens: options?.signal?.aborted ? 3 : (request.maxTokens ?? 3) },
          options?.signal?.aborted ? {} : options,
        ),
    }),
  ],
  [
    'leaks the slot of a client that leaves',
    /leaving the iteration cancels: a slot is not freed/,
    streaming((events) =>
      changed(events, { return: async () => ({ done: true, value: undefined }) }),
    ),
  ],
  [
    'throws at the call',
    /also of validation, once: .*maxTokens/s,
    ({ submit }) => ({
      submit(request, options) {
        if (request.maxTokens === 0) throw new CllmError('invalid_request', 'maxTokens: too few')
        return submit(request, options)
      },
    }),
  ],
  [
    'throws plain errors',
    /not a CllmError/,
    streaming((events) =>
      changed(events, {
        next: async () =>
          await events.next().catch((error: Error) => {
            throw new Error(error.message)
          }),
      }),
    ),
  ],
  [
    'throws again and again',
    /also of validation, once: /,
    streaming((events) => {
      let failure: unknown
      return changed(events, {
        async next() {
          if (failure !== undefined) throw failure
          return await events.next().catch((error: unknown) => {
            failure = error
            throw error
          })
        },
      })
    }),
  ],
  [
    'loses the details of errors',
    /also of validation, once: the details/,
    streaming((events) =>
      changed(events, {
        next: async () =>
          await events.next().catch((error: CllmError) => {
            throw new CllmError(error.code, error.message)
          }),
      }),
    ),
  ],
  [
    'has no start',
    /one start, the tokens, one end/,
    streaming((events) =>
      changed(events, {
        async next() {
          const result = await events.next()
          return result.value?.type === 'start' ? await events.next() : result
        },
      }),
    ),
  ],
  [
    'counts its requests from 1',
    /ids are 32 hex digits/,
    ({ submit }) => {
      let count = 0
      return { submit: (request, options) => submit({ id: `${++count}`, ...request }, options) }
    },
  ],
  [
    'draws with seeds of its own',
    /a seed draws the same again/,
    ({ submit }) => {
      let seed = 0
      return {
        submit: (request, options) =>
          submit({ ...request, sampling: { ...request.sampling, seed: ++seed } }, options),
      }
    },
  ],
  [
    'renames a request whose id is taken',
    /an id under way is refused/,
    ({ submit }) => {
      const live = new Set<string | undefined>()
      return {
        submit(request, options) {
          const { id, ...rest } = request
          if (id !== undefined && live.has(id)) return submit(rest, options)
          live.add(id)
          return watchStream(submit(request, options), { onEnd: () => void live.delete(id) })
        },
      }
    },
  ],
  [
    'drops events that are not read',
    /loses nothing: what was not read at once/,
    streaming((events) => {
      const kept: GenerateEvent[] = []
      const pumped = (async () => {
        for await (const event of events)
          if (kept.length < 50 || event.type === 'end') kept.push(event)
      })()
      pumped.catch(() => {})
      let isOver = false
      return changed(events, {
        async next() {
          if (isOver) return { done: true, value: undefined }
          while (kept.length === 0 && (await unsettled(pumped.catch(() => {})))) continue
          const value = kept.shift()
          isOver = value === undefined
          if (isOver) await pumped
          return value === undefined ? { done: true, value } : { done: false, value }
        },
      })
    }),
  ],
  [
    'has no infill in its info',
    /describes what the engine serves: the marks of gaps/,
    ({ info }) => ({
      async info() {
        const { infill: _, ...rest } = await info()
        return rest
      },
    }),
  ],
  [
    'drops the options of tokenize',
    /tokenizes, and back/,
    ({ tokenize }) => ({ tokenize: async (text) => await tokenize(text) }),
  ],
  [
    'drops the options of the template',
    /the options of the template/,
    ({ applyTemplate }) => ({ applyTemplate: async (messages) => await applyTemplate(messages) }),
  ],
  [
    'answers calls with the answers of others',
    /answered each with its own/,
    ({ detokenize }) => {
      let last: Promise<string> = Promise.resolve('')
      return {
        async detokenize(tokens) {
          const before = last
          last = detokenize(tokens)
          return tokens.length === 3 ? await before : await last
        },
      }
    },
  ],
  [
    'says nothing of a request that there is not',
    /explains a request, and rejects for an unknown one: .*expected request_not_found/s,
    ({ explain }) => ({
      explain: async (id) => await explain(id).catch(async () => await explain('explained')),
    }),
  ],
  [
    'drains at once',
    /not drained while a request runs/,
    ({ drain }) => ({
      async drain() {
        void drain()
      },
    }),
  ],
  [
    'takes requests while it drains',
    /draining, it takes nothing new/,
    ({ statistics, submit }) => ({
      // What is taken too late waits for the others, which are long.
      submit: (request, options) =>
        submit({ ...request, maxTokens: Math.min(request.maxTokens ?? 3, 3000) }, options),
      async drain() {
        while ((await statistics()).running > 0)
          await new Promise((resolve) => setImmediate(resolve))
      },
    }),
  ],
  [
    'closes once only',
    /closed, it ends that.*: closed already/s,
    ({ close }) => {
      let isClosed = false
      return {
        async close() {
          if (isClosed) throw new Error('closed already')
          isClosed = true
          await close()
        },
      }
    },
  ],
]

/** A client whose methods can be taken out of it. */
const bound = (client: EngineClient): EngineClient => overriding(client, {})

t.test('the suite finds a client that', async (t) => {
  for (const [defect, message, change] of broken) {
    const recording = new FirstFailureContext()
    await testEngineClient(recording, defect, () => {
      const client = local()
      return { client: overriding<EngineClient>(client, change(bound(client))) }
    }).catch(() => {})
    t.match(recording.failure, message, defect)
  }
})

const without = (name: keyof OpenOptions, options: OpenOptions = {}): OpenOptions =>
  Object.fromEntries(Object.entries(options).filter(([key]) => key !== name))

const brokenDirectories: [string, RegExp, (pool: ModelPool) => Partial<EngineDirectory>][] = [
  [
    'takes unknown names for the default one',
    /refuses names/,
    (pool) => ({ nameOf: (id) => (id !== undefined && pool.list().includes(id) ? id : 'a') }),
  ],
  [
    'loads what is peeked at',
    /a peek finds no model/,
    (pool) => ({ open: (id, options) => pool.open(id, without('peek', options)) }),
  ],
  [
    'forgets how long a model is to stay',
    /a model stays until the signal|a keep-alive of 0/,
    (pool) => ({ open: (id, options) => pool.open(id, without('keepAliveMs', options)) }),
  ],
  [
    'forgets the work that holds a model',
    /stays until the signal of its work fires/,
    (pool) => ({ open: (id, options) => pool.open(id, without('until', options)) }),
  ],
  [
    'does not unload',
    /unloaded when unused/,
    (pool) => ({ unload: async (id) => void pool.nameOf(id) }),
  ],
]

t.test('the suite finds a directory that', async (t) => {
  for (const [defect, message, change] of brokenDirectories) {
    const recording = new FirstFailureContext()
    const load = async (): Promise<LoadedModel> => {
      const client = local()
      return { client, close: async () => await client.close() }
    }
    const make = () => {
      const pool = new ModelPool({ models: ['a', 'b'].map((name) => ({ name, load })) })
      const directory = overriding<EngineDirectory>(pool, change(pool))
      return { directory, dispose: async () => await pool.close() }
    }
    await testEngineDirectory(recording, defect, make, { patience: 5000 }).catch(() => {})
    t.match(recording.failure, message, defect)
  }
})
