import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  type EngineLink,
  LocalEngineClient,
  type LoadedModel,
  ModelPool,
  type LoadableModel,
  RemoteEngineClient,
  StaticDirectory,
  SupervisedEngineClient,
} from '@cllm/host'
import { systemRandom } from '@cllm/core'
import {
  createConformanceEngine,
  hostConformanceEngine,
  plainEnvironment,
  testEngineClient,
  testEngineDirectory,
} from '@cllm/testing'
import t from 'tap'
import { channels } from '../fake-process.js'

function local(): LocalEngineClient {
  const { engine, registry } = createConformanceEngine()
  return new LocalEngineClient(engine, registry, systemRandom)
}

/** A channel to an engine in this process: what goes through it has been JSON. */
function link(): EngineLink {
  const { here, there } = channels()
  hostConformanceEngine(there)
  const kill = () => {
    here.break('it was killed')
    there.break('its parent is gone')
  }
  return { channel: here, kill }
}

/** An engine in a process of its own. */
function childProcess(): EngineLink {
  const child = fork(fileURLToPath(new URL('../conformance-child.mjs', import.meta.url)), {
    execArgv: [],
    env: plainEnvironment(process.env),
  })
  return {
    channel: {
      send: (message) => void (child.connected && child.send(message, () => {})),
      onMessage: (listener) => void child.on('message', listener),
      onClose: (listener) => void child.once('exit', (code) => listener(`it ended with ${code}`)),
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

const models = (names: readonly string[]): LoadableModel[] =>
  names.map((name) => ({
    name,
    async load(): Promise<LoadedModel> {
      const client = local()
      return { client, close: async () => await client.close() }
    },
  }))

await testEngineClient(t, 'in this process', () => ({ client: local() }))

await testEngineClient(t, 'over a channel', () => {
  const { channel, kill } = link()
  return { client: new RemoteEngineClient(channel, systemRandom), dispose: kill }
})

await testEngineClient(t, 'of a child process', () => {
  const { channel, kill } = childProcess()
  return { client: new RemoteEngineClient(channel, systemRandom), dispose: kill }
})

await testEngineClient(t, 'supervised', () => {
  const client = new SupervisedEngineClient({ start: link })
  return { client, dispose: () => client.kill() }
})

await testEngineClient(t, 'supervised, of a child process', () => {
  const client = new SupervisedEngineClient({ start: childProcess })
  return { client, dispose: () => client.kill() }
})

await testEngineClient(t, 'pooled', () => {
  const pool = new ModelPool({ models: models(['a']) })
  return { client: pool.open('a'), dispose: async () => await pool.close() }
})

await testEngineClient(t, 'pooled, for one piece of work', () => {
  const pool = new ModelPool({ models: models(['a']) })
  const work = new AbortController()
  const client = pool.open('a', { until: work.signal })
  return {
    client,
    async dispose() {
      work.abort()
      await pool.close()
    },
  }
})

await testEngineDirectory(t, 'of a pool', () => {
  const directory = new ModelPool({ models: models(['a', 'b']) })
  return { directory, dispose: async () => await directory.close() }
})

await testEngineDirectory(
  t,
  'of engines that are always there',
  () => {
    const directory = new StaticDirectory(['a', 'b'].map((name) => [name, local()] as const))
    return { directory, dispose: async () => await directory.close() }
  },
  { unloads: false },
)
