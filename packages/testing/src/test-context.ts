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
