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
