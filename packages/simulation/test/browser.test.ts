import { fileURLToPath } from 'node:url'
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'
import t from 'tap'
import { simulateSample } from './load.js'

/** Bundles a module as for a page. What a browser does not have, such as `node:fs`, is an error. */
async function bundle(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL('.', import.meta.url)), loader: 'ts' },
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'bundled',
    write: false,
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}

const policies = ['adaptive+fcfs', 'chunked+dlpm', 'static+mlfq']

/** What a page has, with which a turn of the event loop can be waited for. */
const eventLoops = {
  messages: { MessageChannel: immediateChannel() },
  timers: { setTimeout: (run: () => void) => void setImmediate(run) },
}

for (const [name, globals] of Object.entries(eventLoops)) {
  t.test(`a browser with ${name} gets the figures that Node gets`, async (t) => {
    const code = await bundle("export * from './load.ts'")
    // The context has the language and nothing else: no process, no Buffer, no require.
    const context = createContext({ ...globals })
    t.equal(
      runInContext('typeof process + typeof Buffer + typeof require', context),
      'undefined'.repeat(3),
    )
    runInContext(code, context)
    for (const policy of policies) {
      const call = `bundled.simulateSample(${JSON.stringify(policy)}).then(JSON.stringify)`
      const there = (await runInContext(call, context)) as string
      const here = await simulateSample(policy)
      t.equal(there, JSON.stringify(here), policy)
      t.ok(here.results.some(({ error }) => error === 'cancelled'))
      t.ok(here.results.filter(({ usage }) => usage !== undefined).length > 20)
    }
  })
}

t.test('a module that needs Node cannot be bundled', async (t) => {
  await t.rejects(bundle("export { loadPlugin } from '@cllm/host'"), /Could not resolve "node:fs"/)
})

/** A message channel that does not keep this process alive, as Node's own does. */
function immediateChannel() {
  return class {
    #take: () => void = () => {}
    readonly port1 = {
      addEventListener: (_: 'message', take: () => void) => void (this.#take = take),
      start: () => {},
    }
    readonly port2 = { postMessage: () => void setImmediate(() => this.#take()) }
  }
}
