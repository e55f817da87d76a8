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
