import { readFile } from 'node:fs/promises'
import t from 'tap'
import { testNames } from './parse-tests.js'

const root = new URL('../../../../', import.meta.url)

/** The tests that fail without the protection, for each failure on the page. */
const proofs: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'client left, work continues': {
    'core/test/engine/requests/request-table.test.ts': [
      'cancelling frees the slot before the next step',
    ],
    'http-koa/test/protocols/native/generate.test.ts': ['a client that leaves is cancelled'],
  },
  'unbounded queue': {
    'core/test/engine/input/admission.test.ts': [
      'at ten times the capacity, accepted requests start when predicted',
    ],
  },
  'one overflow kills all': {
    'core/test/engine/loop/run-step.test.ts': ['one request can never fail another'],
  },
  'prefill starves decode': {
    'scheduler/test/batchings/adaptive/adaptive.test.ts': ['a long prompt among four streams'],
  },
  starvation: {
    'scheduler/test/conformance.test.ts': [
      'every order with every batching keeps the bound on overtaking',
    ],
    'testing/test/policy/policy.test.ts': ['the suite finds'],
  },
  'KV leak between requests': {
    'core/test/random-requests.test.ts': [
      'every answer is the one that the request gets alone, whatever runs beside it',
    ],
  },
  'wrong saved state': {
    'core/test/engine/kv/states/state-cache.test.ts': [
      'a file that is damaged, short or foreign is never used',
    ],
  },
  'prefix cache reveals other tenants': {
    'http-koa/test/security/security.test.ts': [
      'no cache hit, and no timing of one, crosses tenants',
    ],
  },
  'slot leak': {
    'core/test/random-requests.test.ts': [
      'every answer is the one that the request gets alone, whatever runs beside it',
    ],
  },
  'native crash, OOM kill': {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'whenever the engine dies, every answer stays the same',
    ],
    'cli/test/engine/spawn-engine.test.ts': [
      'greedy streams continue unchanged though the engine is killed again and again',
    ],
  },
  'a request kills the engine': {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'only the request that kills the engine fails',
    ],
  },
  hang: {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'an engine that stops computing steps is killed; an idle one is not',
      'a hang outside a forward pass costs seconds, not minutes',
    ],
  },
  'lost cancel': {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'a request whose client has left is not given to the next engine',
    ],
  },
  'lost channel': {
    'cli/test/engine/engine.test.ts': [
      'a process that loses its channel is killed, even if it does not notice',
    ],
  },
  'model no longer loads': {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'restarts back off, and failed starts come to an end',
    ],
  },
  'clock set': {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'setting the system clock changes no deadline, timer or watchdog',
    ],
    'http-koa/test/protocols/usage/usage-protocol.test.ts': [
      'usage by key and day, and the quota of a month',
    ],
  },
  'structured output fails open': {
    'backend-llamacpp/test/grammar/structured-output.test.ts': [
      'what cannot be kept to is refused, and where it is',
    ],
  },
  'memory growth': {
    'core/test/engine/report/engine-report.test.ts': ['what it keeps of ended requests is bounded'],
  },
  drain: {
    'http-koa/test/server/koa-transport.test.ts': [
      'draining: running requests finish, readiness and new requests get 503 at once',
    ],
    'cli/test/commands/serve/signals.test.ts': [
      'SIGTERM after a model was fetched lets what runs finish',
    ],
  },
  'Ctrl-C': {
    'cli/test/commands/serve/signals.test.ts': [
      'the engine ignores the Ctrl-C that a terminal sends it too',
    ],
  },
  'parent killed': {
    'cli/test/commands/serve/signals.test.ts': ['the engine does not outlive its parent'],
  },
  'wrong settings found late': {
    'cli/test/commands/serve/start.test.ts': [
      'wrong settings are reported before the model is fetched',
    ],
  },
  'a worker dies; messages lost, doubled, late': {
    'cluster/test/faults.test.ts': [
      'whatever is lost, doubled, late or dies: each token once and in order',
      'a link hands over each message once and in order, or closes',
    ],
  },
  'one of `--workers` killed': {
    'cli/test/commands/cluster/cluster.test.ts': [
      'one of several engines of a server is killed: no token is lost',
    ],
  },
  'Redis dies': {
    'cli/test/commands/cluster/cluster.test.ts': ['Redis dies and comes back empty'],
  },
  'foreign messages in mailboxes': {
    'cluster/test/cluster.test.ts': ['TLS, and users with the rights of deploy/redis'],
  },
  'rolling restart': {
    'cli/test/commands/serve/serve.test.ts': [
      'a rolling restart behind a proxy loses nothing, and a second signal ends at once',
    ],
  },
  'non-determinism under batching': {
    'core/test/random-requests.test.ts': [
      'every answer is the one that the request gets alone, whatever runs beside it',
    ],
    'cli/test/engine/spawn-engine.test.ts': ['sampled text depends on the seed alone'],
  },
  'errors lost mid-stream': {
    'http-koa/test/protocols/native/generate.test.ts': ['failures of a stream'],
  },
  'wrong metrics': {
    'http-koa/test/protocols/metrics/metrics-protocol.test.ts': [
      'the usage in answers adds up to the counters',
    ],
  },
  'client does not read': {
    'http-koa/test/stream/client-stream.test.ts': [
      'a client that does not read is cut off and its slot freed; no other request waits',
    ],
  },
  'load races': {
    'host/test/models/model-pool.test.ts': [
      'the first use loads a model, and simultaneous uses load it once',
      'a model in use is never unloaded, and no model waits forever',
    ],
  },
  'request too deep or long for the channel': {
    'host/test/supervisor/supervised-engine-client.test.ts': [
      'what cannot be sent fails, and nothing else',
    ],
  },
  'full disk during a batch': {
    'http-koa/test/protocols/batches/batch-runner.test.ts': [
      'a batch outlives a moment without space on the disk',
    ],
  },
  'bytes that are not HTTP, 1,000 connections': {
    'cli/test/benchmarks/faults.test.ts': ['cllm serve survives every fault'],
  },
}

t.test('every failure on the page names tests that exist and run', async (t) => {
  const page = await readFile(new URL('docs/reliability.md', root), 'utf8')
  const failures = [...page.matchAll(/^- \*\*([^*]+)\*\*/gm)].map(([, failure = '']) => failure)
  t.ok(failures.length > 20)
  t.same(failures, Object.keys(proofs))
  for (const [path, names] of Object.values(proofs).flatMap(Object.entries<readonly string[]>)) {
    const tests = testNames(await readFile(new URL(`packages/${path}`, root), 'utf8'))
    for (const name of names) t.ok(tests.has(name), `${path}: ${name}`)
  }
})

t.test('only tests that run count', async (t) => {
  const file = `
    import { named } from 'imported'
    // t.test('in a comment', async () => {})
    t.test('runs', async (t) => { t.test('inside', () => {}) })
    testEach('each', async () => {})
    t.test('skipped', { skip: true }, async () => {})
    t.test('to do', { todo: 'later' }, async () => {})
    t.skip('skipped too', async () => {})
    t.test('without a body')
    t.ok('no test', () => {})
    t.test('with options', { timeout: 1 }, async () => {})
  `
  t.same([...testNames(file)], ['runs', 'inside', 'each', 'with options'])
})
