// Runs the `*.test.ts` files of a folder in one process, which takes a fifth of the time of a process for each. A suite
// is a file `all.suite.mjs`; it has the test files of its folder and of the folders below without a suite of their own:
// a new test file needs no listing. The first line of a test file may say
//
//   // slow: why    it runs in `pnpm test:all` only, and when it is named: `npx tap run <file>`
//
// In test files `import t from 'tap'` is the test of their own file (`load-tests.mjs` sees to it), also where one runs
// alone, so that what they do at their top (tear-downs, plans) is theirs, and a file that hangs or fails is named.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('..', import.meta.url))
/** `--all`, `--nightly`: what tap is given as `--test-arg`. */
const given = process.argv.slice(2)
const suiteName = 'all.suite.mjs'
/** The milliseconds that one file may take: as many as tap allows a process that runs one file. */
const limit = t.options.timeout
let testOfFile = t

// tap removes a test's folder before the tear-downs that were registered after it was made, such as a server's that
// writes into it, unless there was one before.
t.teardown(() => {})
t.beforeEach((t) => t.teardown(() => {}))

/** What `import t from 'tap'` is for the file that runs, and for what it imports. */
export default new Proxy(t, {
  get(_, name) {
    const value = Reflect.get(testOfFile, name)
    return typeof value === 'function' ? value.bind(testOfFile) : value
  },
  set: (_, name, value) => Reflect.set(testOfFile, name, value),
})

/** Runs the tests of the folder that the suite at `url` lies in. */
export async function runSuite(url) {
  for (const file of testFiles(dirname(fileURLToPath(url)))) {
    const name = relative(root, file).replaceAll('\\', '/')
    const slow = /^\/\/ slow: (.*)\n/.exec(readFileSync(file, 'utf8'))?.[1]
    t.setTimeout(2 * limit) // counted from now; the file's own comes first unless it blocks the process
    if (slow !== undefined && !given.includes('--all')) {
      await t.test(name, { skip: `slow: ${slow}; run by \`pnpm test:all\`` })
    } else {
      await runFile(t, file)
    }
  }
  t.setTimeout(limit / 5) // what a test left open must not hold up the run
}

/** Runs the tests of one file as a subtest; `again` makes it another module than before. */
export function runFile(t, file, again = '') {
  const name = relative(root, file).replaceAll('\\', '/')
  return t.test(name, { timeout: limit }, async (t) => {
    testOfFile = t
    await import(pathToFileURL(file).href + again)
  })
}

export function testFiles(folder) {
  const entries = readdirSync(folder, { withFileTypes: true })
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isFile()) return entry.name.endsWith('.test.ts') ? [path] : []
    const isOurs = entry.isDirectory() && entry.name !== 'node_modules'
    return isOurs && !existsSync(join(path, suiteName)) ? testFiles(path) : []
  })
}
