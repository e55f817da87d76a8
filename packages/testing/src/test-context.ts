import assert from 'node:assert/strict'
import { checkDefinition } from '@cllm/core'

/**
 * What the conformance suites need of a test framework; the `t` of tap fits. A check that fails
 * throws an `AssertionError` out of its subtest.
 */
export interface TestContext {
  /** Runs a subtest; it fails when the body rejects. */
  test(name: string, body: (t: TestContext) => Promise<void>): PromiseLike<unknown>
  /** Counts a check that went well. */
  pass(message: string): unknown
}

/** Runs one check of a suite as a subtest. */
export async function check(
  t: TestContext,
  name: string,
  body: () => void | Promise<void>,
): Promise<void> {
  await t.test(name, async (t) => {
    await body()
    t.pass(name)
  })
}

/**
 * Checks that a plug-in may register something: its definition, with defaults for all options, and a doc of one line.
 *
 * @param register - adds it to a catalog
 */
export async function checkDefined(
  t: TestContext,
  kind: string,
  definition: Parameters<typeof checkDefinition>[1],
  register: () => unknown = () => {},
): Promise<void> {
  await check(t, 'is a definition', () => {
    checkDefinition(kind, definition)
    assert(!definition.doc.includes('\n'), 'its doc is one line')
    const names = Object.keys(definition.options?.shape ?? {})
    const defaults = Object.keys(definition.options?.parse({}) ?? {})
    assert.deepEqual(defaults.toSorted(), names.toSorted(), 'its options have defaults')
    register()
  })
}

/** What a process needs of its surroundings: where programs, the user's files, caches and npm's registry are. */
const needed =
  /^(PATH|PATHEXT|COMSPEC|SYSTEMROOT|WINDIR|SYSTEMDRIVE|PROGRAMDATA|HOME|USER|USERPROFILE|APPDATA|LOCALAPPDATA|TEMP|TMP|TMPDIR|LANG|LC_.*|TZ|XDG_.*|CLLM_CACHE|HF_.*|LD_LIBRARY_PATH|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|(HTTPS?|NO|ALL)_PROXY|npm_config_(registry|cache|userconfig|.*proxy|cafile))$/i

/** Where the package `process-on-spawn`, which tap and nyc use, keeps what it calls for each process. */
const spawnHooks = Symbol.for('process-on-spawn@*:singletonId')

/**
 * The environment of a process that a test starts, so that it behaves as a user's: none of the test
 * runner's variables, no loaders, and of `NODE_OPTIONS` what the runner says in `CLLM_TEST_NODE_OPTIONS`. Test runners also change processes as they are
 * started, and what they put in (such as listeners for signals) can hide a defect; from the first call
 * on they no longer do so in this process.
 *
 * @param own - the test's own environment, `process.env`
 * @param more - variables to set beside what every process needs
 */
export function plainEnvironment(
  own: Readonly<NodeJS.ProcessEnv>,
  more: Readonly<NodeJS.ProcessEnv> = {},
): NodeJS.ProcessEnv {
  const hooks = (globalThis as Record<symbol, unknown>)[spawnHooks]
  ;(hooks as { listeners: unknown[] } | undefined)?.listeners.splice(0)
  const kept = Object.entries(own).filter(([name]) => needed.test(name))
  const options = own['CLLM_TEST_NODE_OPTIONS']
  const given = options === undefined ? {} : { NODE_OPTIONS: options }
  return { ...Object.fromEntries(kept), ...given, ...more }
}
