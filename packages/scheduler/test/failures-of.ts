import type { TestContext } from '@cllm/testing'

/**
 * Runs a suite that is expected to fail, and returns what failed, each with the check's name and the cause.
 *
 * @param enough - after a failure like this one the rest of it is not run
 */
export async function failuresOf(
  suite: (t: TestContext) => Promise<void>,
  enough?: RegExp,
): Promise<string[]> {
  const failures: string[] = []
  const recording: TestContext = {
    async test(name, body) {
      if (enough !== undefined && failures.some((failure) => enough.test(failure))) return
      await body(recording).catch(({ message, cause }: Error) => {
        failures.push(
          `${name}: ${message} ${(cause as Error | undefined)?.message ?? ''}`.trimEnd(),
        )
      })
    },
    pass: () => undefined,
  }
  await suite(recording)
  return failures
}
