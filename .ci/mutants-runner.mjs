// Runs the tests of a folder for StrykerJS: a process that keeps the modules that it has loaded and runs the test files anew
// for each mutant, which takes a tenth of the time of a process for each.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const known = JSON.parse(readFileSync(new URL('mutants.json', import.meta.url), 'utf8'))
/** One of so many mutants is tried. */
const every = Number(process.env.MUTANTS_EVERY)

/** What the compiled code and StrykerJS share. */
const state = (globalThis.__stryker__ ??= {})
const added = /^__(decorate|metadata|param)$/

class TestsInOneProcess {
  #runs = 0
  #isSpoilt = false

  capabilities() {
    return { reloadEnvironment: false }
  }

  async init() {
    // tap would tell the parent, which is no runner of its own, how long it may take.
    const send = Object.getOwnPropertyDescriptor(process, 'send')
    delete process.send
    const [{ default: t }, suite] = await Promise.all([import('tap'), import('./suite.mjs')])
    t.setTimeout(0)
    Object.defineProperty(process, 'send', send)
    this.t = t
    this.suite = suite
    this.files = known[process.env.MUTANTS].tests.split(' ').flatMap((name) => {
      const path = `${root}packages/${name}`
      return name.endsWith('.ts') ? [path] : suite.testFiles(path)
    })
    // What a mutant leaves running must not end the process.
    process.on('unhandledRejection', () => {})
    process.on('uncaughtException', () => {})
  }

  async dryRun() {
    // Once for what runs as modules are loaded, and once for what the tests run.
    for (const file of this.files) await this.#run(file)
    const tests = []
    for (const file of this.files) {
      state.currentTestId = file
      tests.push(await this.#run(file))
    }
    const { static: loading = {}, perTest = {} } = state.mutantCoverage ?? {}
    const tested = new Set(Object.values(perTest).flatMap(Object.keys))
    const ignored = new Set(Object.keys(loading).filter((id) => !tested.has(id)))
    // What only loading reaches is left out (`ignoreStatic`), and so is what is called that here: all but the sample.
    for (let id = 0; id < 1e5; id++) if (id % every !== 0) ignored.add(String(id))
    for (const covered of Object.values(perTest)) for (const id of ignored) delete covered[id]
    const entries = Array.from(ignored, (id) => [id, 1])
    const mutantCoverage = { static: Object.fromEntries(entries), perTest }
    return { status: 'complete', tests, mutantCoverage }
  }

  async mutantRun({ activeMutant, testFilter = this.files, hitLimit }) {
    if (this.#isSpoilt) throw new Error('an earlier mutant has spoilt this process')
    const isFirst = this.#runs++ === 0
    for (const [index, file] of testFilter.entries()) {
      Object.assign(state, { activeMutant: activeMutant.id, hitCount: 0, hitLimit })
      const { status, failureMessage } = await this.#run(file)
      state.activeMutant = undefined
      if (state.hitCount > hitLimit) {
        this.#isSpoilt = true
        return { status: 'timeout', reason: 'endless' }
      }
      if (status === 0) continue
      // Only what the mutant itself fails counts, and not what those before it left behind.
      this.#isSpoilt = (await this.#run(file)).status !== 0
      if (this.#isSpoilt && !isFirst) throw new Error('an earlier mutant has spoilt this process')
      return { status: 'killed', killedBy: [file], failureMessage, nrOfTests: index + 1 }
    }
    return { status: 'survived', nrOfTests: testFilter.length }
  }

  async #run(file) {
    const began = performance.now()
    const run = this.suite.runFile(this.t, file, `?${this.#runs}-${began}`)
    await run.catch(() => {})
    const isOk = run.subtest.results?.ok === true
    const failed = { status: 1, failureMessage: file.slice(root.length) }
    const timeSpentMs = performance.now() - began
    return { id: file, name: file, fileName: file, timeSpentMs, ...(isOk ? { status: 0 } : failed) }
  }
}

const plugin = (kind, name, more) => ({ kind, name, ...more })
export const strykerPlugins = [
  plugin('TestRunner', 'tests-in-one-process', { injectableClass: TestsInOneProcess }),
  plugin('Ignore', 'what-the-compiler-adds', {
    value: {
      shouldIgnore(path) {
        const { id, callee } = path.node
        const isAdded = added.test(id?.name ?? callee?.name)
        return isAdded ? 'decorators' : undefined
      },
    },
  }),
]
